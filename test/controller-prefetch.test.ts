import { expect, test } from 'vitest';
import { placeBets, type Candidate, type Stakes } from '../src/controller/prefetch/prefetch.js';

const STAKES: Stakes = { minUse: 0.2, maxWaste: 1, maxPages: 100, optimism: 1 };
const candidate = (page: number, chance: number): Candidate => ({ page, chance });
const place = (
  given: Record<string, Candidate[]>,
  stakes: Partial<Stakes> = {},
  step: (page: number) => number = () => 1,
): Record<string, number[]>[] =>
  placeBets(
    Object.entries(given).map(([process, candidates]) => ({ process, candidates, step })),
    { ...STAKES, ...stakes },
  ).map(({ process, pages }) => ({ [process]: pages.map(({ page }) => page) }));

test('the most certain pages of all processes come first, each process in address order', () => {
  const given = { a: [candidate(2, 0.9), candidate(4, 0.25), candidate(9, 0.9)], b: [candidate(7, 0.5)] };
  expect(place(given, { maxPages: 3 })).toEqual([{ a: [2, 9] }, { b: [7] }]);
});

test('what is used first comes back first, whichever process it is of', () => {
  const given = { a: [candidate(2, 0.9), candidate(9, 0.9)], b: [candidate(5, 0.9), candidate(7, 0.5)] };
  const step = (page: number): number => (page > 5 ? 1 : 2);
  expect(place(given, {}, step)).toEqual([{ a: [9] }, { b: [7] }, { a: [2] }, { b: [5] }]);
});

test('a page whose use is less likely than it is worth stays out', () => {
  expect(place({ a: [candidate(1, 0.21), candidate(2, 0.19)] })).toEqual([{ a: [1] }]);
});

test('bets end where more than the allowed part is expected to be wasted', () => {
  const pages = [candidate(1, 1), candidate(2, 0.9), candidate(3, 0.5), candidate(4, 0.3)];
  expect(place({ a: pages }, { maxWaste: 0.1 })).toEqual([{ a: [1, 2] }]);
  expect(place({ a: pages }, { maxWaste: 0.2 })).toEqual([{ a: [1, 2, 3] }]);
  expect(place({ a: pages }, { maxWaste: 0.05 })).toEqual([{ a: [1, 2] }]);
});

test('nothing is sure enough for no waste at all; without room there is no bet', () => {
  expect(place({ a: [candidate(1, 0.99)] }, { maxWaste: 0 })).toEqual([]);
  expect(place({ a: [candidate(1, 0.99)] }, { maxPages: 0 })).toEqual([]);
});

test('predictions that promised too much are believed less, down to no bet', () => {
  const pages = [candidate(1, 0.9), candidate(2, 0.6), candidate(3, 0.5)];
  const bets = (optimism: number) => place({ a: pages }, { optimism, maxWaste: 0.35 });
  expect(bets(1)).toEqual([{ a: [1, 2, 3] }]);
  expect(bets(2)).toEqual([{ a: [1] }]);
  expect(bets(4)).toEqual([]);
});
