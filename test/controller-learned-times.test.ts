import { expect, test } from 'vitest';
import { LearnedTimes } from '../src/controller/windows/learned-times.js';
import { Predictions } from '../src/controller/windows/predictions.js';
import { testRandom } from './support/seed.js';

test('nothing is expected until a few are known', () => {
  const times = new LearnedTimes();
  for (const ms of [900, 800, 700]) times.note(['one'], ms);
  expect(times.quantile(['one'], 0.1)).toBeNull();
  times.note(['one'], 1000);
  expect(times.quantile(['one'], 0.1)).toBe(700);
  expect(times.quantile(['two'], 0.1)).toBeNull();
});

test('quantiles are those of what was seen', () => {
  const random = testRandom('quantiles');
  const times = new LearnedTimes();
  for (let i = 0; i < 2000; i++) times.note(['one'], random.below(10_000));
  const found = [0.1, 0.5, 0.9].map((share) => times.quantile(['one'], share) as number);
  // Some 23 samples count: three deviations of such a quantile are within this.
  found.forEach((ms, i) => expect(Math.abs(ms - [1000, 5000, 9000][i])).toBeLessThan(3500));
  expect(found).toEqual(found.toSorted((a, b) => a - b));
});

test('what was long ago counts for less, and is forgotten', () => {
  const times = new LearnedTimes();
  for (let i = 0; i < 64; i++) times.note(['one'], 10);
  for (let i = 0; i < 20; i++) times.note(['one'], 2000);
  expect(times.quantile(['one'], 0.5)).toBe(2000);
  expect(times.quantile(['one'], 0.05)).toBe(10);
  for (let i = 0; i < 64; i++) times.note(['one'], 2000);
  expect(times.quantile(['one'], 0)).toBe(2000);
});

test('what is not known of the special kind is taken from the next general one', () => {
  const times = new LearnedTimes();
  for (let i = 0; i < 3; i++) times.note(['box-1', 'all'], 100);
  expect(times.quantile(['box-1', 'all'], 0.5)).toBeNull();
  for (let i = 0; i < 3; i++) times.note(['box-2', 'all'], 900);
  expect(times.quantile(['box-1', 'all'], 0.6)).toBe(900);
  times.note(['box-1', 'all'], 100);
  expect(times.quantile(['box-1', 'all'], 0.6)).toBe(100);
});

test('it remembers so many kinds, those met last', () => {
  const times = new LearnedTimes();
  const often = (kind: string, ms: number): void => {
    for (let i = 0; i < 4; i++) times.note([kind], ms);
  };
  often('first', 1);
  often('second', 2);
  for (let i = 0; i < 4094; i++) times.note([`other ${i}`], 3);
  times.note(['first'], 1);
  times.note(['one more'], 4);
  expect(times.quantile(['first'], 0.5)).toBe(1);
  expect(times.quantile(['second'], 0.5)).toBeNull();
});

test('waits are learnt by sandbox, trust domain and model, most special first', () => {
  const predictions = new Predictions();
  const one = { id: 'one', domain: 'acme py' };
  const two = { id: 'two', domain: 'acme py' };
  const rival = { id: 'three', domain: 'rival py' };
  const median = (whose: typeof one, model?: string) => predictions.wait(whose, model).medianMs;
  for (let i = 0; i < 4; i++) predictions.waited(one, 'large', 8000);
  expect(median(one, 'large')).toBe(8000);
  // Its like with the same model; itself with another; another tenant with the same; whoever with whatever.
  expect([median(two, 'large'), median(one, 'small'), median(rival, 'large'), median(rival)]).toEqual(
    Array(4).fill(8000),
  );
  for (let i = 0; i < 4; i++) predictions.waited(two, 'small', 500);
  expect([median(two, 'small'), median(two, 'large'), median(one, 'small'), median(rival, 'small')]).toEqual([
    500, 8000, 500, 500,
  ]);
});

test('streams and costs are learnt by sandbox, then by its like', () => {
  const predictions = new Predictions();
  const one = { id: 'one', domain: 'd' };
  const two = { id: 'two', domain: 'd' };
  for (let i = 0; i < 4; i++) {
    predictions.streamed(one, 700);
    predictions.paid(one, 90);
  }
  expect([predictions.streamAtLeast(two), predictions.windowCost(two)]).toEqual([700, 90]);
  for (let i = 0; i < 4; i++) predictions.paid(two, 10);
  expect([predictions.windowCost(one), predictions.windowCost(two)]).toEqual([90, 10]);
  expect(predictions.streamAtLeast({ id: 'three', domain: 'e' })).toBe(0);
});
