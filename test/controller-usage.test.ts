import { expect, test } from 'vitest';
import { Usage, type Outcome } from '../src/controller/usage.js';

const present = (): Outcome => 'present';
const out = (): Outcome => 'out';
const scores = (usage: Usage): Record<number, number> =>
  Object.fromEntries(usage.candidates().map(({ page, score }) => [page, score]));

test('a page that was out and came back by itself was asked for', () => {
  const usage = new Usage(3);
  const counts = usage.endPhase([1, 2, 3], (page) => (page === 3 ? 'out' : 'present'));
  expect(counts).toEqual({ demand: 2, used: 0, wasted: 0 });
  expect(scores(usage)).toEqual({ 1: 1, 2: 1 });
});

test('a page that was unmapped was not used', () => {
  const usage = new Usage(3);
  expect(usage.endPhase([1], () => 'unmapped').demand).toBe(0);
  expect(scores(usage)).toEqual({});
});

test('evidence decays, and is forgotten after the phases of the policy', () => {
  const usage = new Usage(3);
  usage.endPhase([1], present);
  const seen = [0, 1, 2, 3].map(() => {
    const score = scores(usage)[1] ?? 0;
    usage.endPhase([1], out);
    return score;
  });
  expect(seen).toEqual([1, 0.5, 0.25, 0]);
});

test('a page used in several phases is more certain than one used in one', () => {
  const usage = new Usage(4);
  usage.endPhase([1, 2], (page) => (page === 1 ? 'present' : 'out'));
  usage.endPhase([1, 2], present);
  expect(scores(usage)).toEqual({ 1: 1.5, 2: 1 });
});

test('a fault is counted once, by the probe or by the look', () => {
  const usage = new Usage(3);
  expect(usage.used(1)).toBe(true);
  expect(usage.used(1)).toBe(false);
  expect(usage.endPhase([1], present).demand).toBe(0);
  expect(scores(usage)).toEqual({ 1: 1 });
});

test('a page put back counts as used when it is seen used, else as wasted', () => {
  const usage = new Usage(3);
  usage.putBack(1);
  usage.putBack(2);
  usage.used(1);
  expect(usage.endPhase([1, 2], present)).toEqual({ demand: 0, used: 1, wasted: 1 });
  expect(scores(usage)).toEqual({ 1: 1 });
});

/** Puts page 1 back in every phase in which it is a candidate, and never sees it used. */
function phasesPutBack(usage: Usage): number {
  for (let phases = 0; ; phases++) {
    if (usage.candidates().length === 0) return phases;
    usage.putBack(1);
    usage.endPhase([1], present);
  }
}

test('a page used once is put back once without a sign of use, then left to show itself', () => {
  const usage = new Usage(3);
  usage.endPhase([1], present);
  expect(phasesPutBack(usage)).toBe(1);
  // Left out, it faults: wanted after all.
  expect(usage.endPhase([1], present).demand).toBe(1);
  expect(usage.candidates()).toHaveLength(1);
});

test('a page used more than once is put back for longer', () => {
  const usage = new Usage(3);
  usage.endPhase([1], present);
  usage.endPhase([1], present);
  expect(phasesPutBack(usage)).toBe(4);
});

test('a page is hot for as many phases after its use as are asked for', () => {
  const usage = new Usage(4);
  usage.endPhase([1], present);
  expect([usage.isHot(1, 0), usage.isHot(1, 1), usage.isHot(2, 1)]).toEqual([false, true, false]);
  usage.endPhase([], present);
  expect([usage.isHot(1, 1), usage.isHot(1, 2), usage.isHot(1, 16)]).toEqual([false, true, true]);
});
