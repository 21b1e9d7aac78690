import { describe, expect, it } from 'vitest';
import { MISSED_MS, type Observed, score } from '../src/bench/detect/score.js';
import { overlap, Timeline } from '../src/bench/detect/timeline.js';

/** A wait from 1000 to 2000, an answer to 2500, a tool from 2600 to 3000. */
const truth: Observed['truth'] = {
  turns: [{ requestAt: 1000, firstTokenAt: 2000, endAt: 2500 }],
  tools: [[2600, 3000]],
};

function said(...changes: [at: number, phase: string][]): Observed {
  const timeline = new Timeline(0, 'unknown');
  for (const [at, phase] of changes) timeline.change(at, phase);
  return { truth, said: timeline, end: 4000 };
}

describe('the score of detection', () => {
  it('is full for what was said when it was so', () => {
    const found = score([said([1000, 'llm_wait'], [2000.5, 'llm_streaming'], [2600, 'tool_running'])]);
    expect(found.precision).toBeCloseTo(1, 2);
    expect(found.recall).toBe(1);
    expect(found.firstTokenMs).toMatchObject({ p50: 0.5, p95: 0.5, count: 1, missed: 0 });
    expect(found.toolStartMs).toMatchObject({ p50: 0, count: 0 });
  });

  it('weighs by time what was said late, and what was said too long', () => {
    const found = score([said([1250, 'llm_wait'], [2250, 'llm_streaming'], [2607, 'tool_running'])]);
    expect(found.recall).toBe(0.75);
    expect(found.precision).toBe(0.75);
    expect(found.firstTokenMs.p50).toBe(250);
    expect(found.toolStartMs).toMatchObject({ p50: 7, count: 1 });
  });

  it('counts what was never said as missed', () => {
    const found = score([said([1000, 'llm_wait'])]);
    expect(found.precision).toBeCloseTo(1 / 3);
    expect(found.firstTokenMs).toMatchObject({ p95: MISSED_MS, missed: 1 });
    expect(found.toolStartMs).toMatchObject({ p95: MISSED_MS, missed: 1 });
  });

  it('is nought without any wait said', () => {
    expect(score([said()])).toMatchObject({ precision: 0, recall: 0 });
  });

  it('adds up all overlaps of intervals', () => {
    expect(
      overlap(
        [
          [0, 10],
          [20, 30],
        ],
        [
          [5, 25],
          [29, 40],
        ],
      ),
    ).toBe(5 + 5 + 1);
  });
});
