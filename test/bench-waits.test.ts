import { describe, expect, it } from 'vitest';
import { Random } from '../src/bench/random.js';
import { quantile } from '../src/bench/stats.js';
import { planTurnWait, planWait, TRACES } from '../src/bench/workloads/waits.js';

const firsts = TRACES.flatMap((trace) => trace.firstTokenMs);
const streams = TRACES.flatMap((trace) => trace.streamMs);

describe('the traces of waits', () => {
  it('have first tokens of 4 s at the median and 12 s at the 95th percentile', () => {
    expect(Math.abs(quantile(firsts, 0.5) - 4000)).toBeLessThan(100);
    expect(Math.abs(quantile(firsts, 0.95) - 12_000)).toBeLessThan(300);
  });

  it('are several, of 30 turns or more, and stream for 0.5 to 6 s', () => {
    expect(TRACES.length).toBeGreaterThanOrEqual(6);
    for (const { firstTokenMs, streamMs } of TRACES) {
      expect(firstTokenMs.length).toBeGreaterThanOrEqual(30);
      expect(streamMs).toHaveLength(firstTokenMs.length);
    }
    expect(quantile(streams, 0)).toBeGreaterThanOrEqual(500);
    expect(quantile(streams, 1)).toBeLessThanOrEqual(6000);
  });

  it('have slow turns next to slow turns', () => {
    const pairs = TRACES.flatMap(({ firstTokenMs: ms }) =>
      ms.slice(1).map((next, i) => [Math.log(ms[i] / 4000), Math.log(next / 4000)]),
    );
    const sum = (of: (pair: number[]) => number): number => pairs.reduce((total, p) => total + of(p), 0);
    const correlation = sum(([a, b]) => a * b) / Math.sqrt(sum(([a]) => a * a) * sum(([, b]) => b * b));
    expect(correlation).toBeGreaterThan(0.3);
  });
});

describe('the waits of agents', () => {
  const waits = (turns: number, ...labels: (string | number)[]): number[] => {
    const random = new Random(1, ...labels);
    return Array.from({ length: turns }, () => planWait(random).firstTokenMs);
  };

  it('are those of the traces, equal for equal names, and others for other names', () => {
    expect(waits(60, 'a')).toEqual(waits(60, 'a'));
    expect(waits(60, 'a')).not.toEqual(waits(60, 'b'));
    expect(waits(500, 'a').every((ms) => firsts.includes(ms))).toBe(true);
  });

  it('keep median and 95th percentile over many short agents', () => {
    const all = Array.from({ length: 2000 }, (_, i) => waits(8, 'agent', i)).flat();
    expect(Math.abs(quantile(all, 0.5) - 4000)).toBeLessThan(300);
    expect(Math.abs(quantile(all, 0.95) - 12_000)).toBeLessThan(1000);
  });

  it('stretch with the time scale', () => {
    const plain = planWait(new Random(1, 'x'));
    const half = planTurnWait(new Random(1, 'x'), 0.5);
    expect(half).toEqual({ firstTokenMs: plain.firstTokenMs / 2, streamMs: plain.streamMs / 2 });
  });
});
