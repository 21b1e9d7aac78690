import { describe, expect, it } from 'vitest';
import { planTrajectories } from '../src/bench/workloads/demo.js';

const plan = (options: Partial<Parameters<typeof planTrajectories>[0]> = {}) =>
  planTrajectories({ sandboxes: 8, turns: 6, seed: 1, ...options });

describe('the trajectories of a fan-out', () => {
  it('are the same for the same seed and others for another', () => {
    expect(plan()).toEqual(plan());
    expect(plan({ seed: 2 })).not.toEqual(plan());
  });

  it('do not depend on how many sandboxes there are', () => {
    expect(plan({ sandboxes: 12 }).slice(0, 8)).toEqual(plan());
  });

  it('share the task and most steps, and differ in some', () => {
    const calls = plan().map(({ turns }) => turns.flatMap((turn) => turn.calls));
    expect(new Set(calls.flat().map(({ args }) => args.seed)).size).toBe(1);
    const steps = calls[0].map((_, i) => new Set(calls.map((of) => JSON.stringify(of[i]))).size);
    const between = steps.slice(1, -1);
    expect(between.some((distinct) => distinct > 1)).toBe(true);
    expect(between.every((distinct) => distinct < 8)).toBe(true);
    // Most load the task's file as it is.
    const loads = new Set(calls.map((of) => of[0].args.own)).size;
    expect(loads).toBeGreaterThan(1);
    expect(loads).toBeLessThan(5);
  });

  it('load the data first and read everything back at the end', () => {
    for (const { turns } of plan()) {
      expect(turns[0].calls[0].tool).toBe('load');
      expect(turns.at(-1)?.calls.at(-1)?.tool).toBe('review');
    }
    expect(plan({ turns: 1 })[0].turns[0].calls.map(({ tool }) => tool)).toEqual(['load', 'review']);
  });

  it('wait some 4 s at the median, 10 to 12 s at the 95th percentile, and never longer than 12 s', () => {
    const waits = plan({ sandboxes: 64, turns: 50 }).flatMap(({ turns }) => turns.map((t) => t.firstTokenMs));
    const sorted = waits.sort((a, b) => a - b);
    const at = (q: number): number => sorted[Math.floor(q * sorted.length)];
    expect(at(0.5)).toBeGreaterThan(3600);
    expect(at(0.5)).toBeLessThan(4400);
    expect(at(0.95)).toBeGreaterThan(9500);
    expect(at(1 - Number.EPSILON)).toBeLessThanOrEqual(12_000);
  });

  it('stretch every wait by the time scale and nothing else', () => {
    const [slow, fast] = [plan(), plan({ timeScale: 0.5 })];
    expect(fast[0].turns[2].firstTokenMs).toBeCloseTo(slow[0].turns[2].firstTokenMs / 2);
    expect(fast.map((t) => t.turns.map((turn) => turn.calls))).toEqual(
      slow.map((t) => t.turns.map((turn) => turn.calls)),
    );
  });
});
