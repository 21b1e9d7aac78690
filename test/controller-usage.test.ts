import { expect, test } from 'vitest';
import { Usage, type Outcome } from '../src/controller/usage.js';

const present = (): Outcome => 'present';
const out = (): Outcome => 'out';
const scores = (usage: Usage): Record<number, number> =>
  Object.fromEntries(usage.candidates().map(({ page, score }) => [page, score]));

test('a page that was out and came back by itself was asked for', () => {
  const usage = new Usage(3);
  const counts = usage.endPhase([1, 2, 3], (page) => (page === 3 ? 'out' : 'present'), []);
  expect(counts).toEqual({ demand: 2, used: 0, wasted: 0 });
  expect(scores(usage)).toEqual({ 1: 1, 2: 1 });
});

test('a page that was unmapped was not used', () => {
  const usage = new Usage(3);
  expect(usage.endPhase([1], () => 'unmapped', []).demand).toBe(0);
  expect(scores(usage)).toEqual({});
});

test('pages written anew count as used, without a fault', () => {
  const usage = new Usage(3);
  expect(usage.endPhase([], present, [7, 8]).demand).toBe(0);
  expect(scores(usage)).toEqual({ 7: 1, 8: 1 });
});

test('evidence decays, and is forgotten after the phases of the policy', () => {
  const usage = new Usage(3);
  usage.endPhase([1], present, []);
  const seen = [0, 1, 2, 3].map(() => {
    const score = scores(usage)[1] ?? 0;
    usage.endPhase([1], out, []);
    return score;
  });
  expect(seen).toEqual([1, 0.5, 0.25, 0]);
});

test('a page used in several phases is more certain than one used in one', () => {
  const usage = new Usage(4);
  usage.endPhase([1, 2], (page) => (page === 1 ? 'present' : 'out'), []);
  usage.endPhase([1, 2], present, []);
  expect(scores(usage)).toEqual({ 1: 1.5, 2: 1 });
});

test('a fault is counted once, by the probe or by the look', () => {
  const usage = new Usage(3);
  expect(usage.used(1)).toBe(true);
  expect(usage.used(1)).toBe(false);
  expect(usage.endPhase([1], present, []).demand).toBe(0);
  expect(scores(usage)).toEqual({ 1: 1 });
});

test('read-ahead pages tell whether they were used', () => {
  const usage = new Usage(3);
  usage.prefetched(1, false);
  usage.prefetched(2, false);
  const counts = usage.endPhase([1, 2], (page) => (page === 1 ? 'present' : 'out'), []);
  expect(counts).toEqual({ demand: 0, used: 1, wasted: 1 });
  expect(scores(usage)).toEqual({ 1: 1 });
});

test('mapped pages keep their score for two phases, then are only read ahead to learn of them', () => {
  const usage = new Usage(2);
  usage.endPhase([1], present, []);
  const blind = [0, 1, 2].map(() => {
    const [candidate] = usage.candidates();
    usage.prefetched(1, !candidate.blind);
    usage.endPhase([1], present, []);
    return candidate.blind;
  });
  expect(blind).toEqual([false, false, true]);
  // The read-ahead has shown it in use: certain again.
  expect(usage.candidates()).toEqual([{ page: 1, score: 1.5, blind: false }]);
});

test('a mapped page that faults all the same is certain', () => {
  const usage = new Usage(2);
  usage.prefetched(1, true);
  usage.used(1);
  usage.endPhase([1], present, []);
  expect(scores(usage)).toEqual({ 1: 1 });
});
