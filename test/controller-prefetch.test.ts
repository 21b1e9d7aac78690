import { expect, test } from 'vitest';
import { placeBets } from '../src/controller/prefetch.js';

const candidate = (page: number, score: number) => ({ page, score });

test('the most certain pages come first, each process in address order', () => {
  const bets = placeBets(
    [
      { process: 'a', candidates: [candidate(9, 1), candidate(4, 0.25), candidate(2, 1)], isOut: () => true },
      { process: 'b', candidates: [candidate(7, 0.5)], isOut: () => true },
    ],
    3,
  );
  expect(bets).toEqual([
    { process: 'a', pages: [2, 9] },
    { process: 'b', pages: [7] },
  ]);
});

test('pages that are in already take no room', () => {
  const candidates = [candidate(1, 1), candidate(2, 0.5)];
  const bets = placeBets([{ process: 'a', candidates, isOut: (page) => page !== 1 }], 1);
  expect(bets).toEqual([{ process: 'a', pages: [2] }]);
});

test('no room, no bet', () => {
  expect(placeBets([{ process: 'a', candidates: [candidate(1, 1)], isOut: () => true }], 0)).toEqual([]);
});
