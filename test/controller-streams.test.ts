import { expect, test } from 'vitest';
import { StreamTimes } from '../src/controller/stream-times.js';

test('nothing is expected of streams until a few are known', () => {
  const streams = new StreamTimes();
  for (const ms of [900, 800, 700]) streams.note('one', ms);
  expect(streams.atLeast('one')).toBe(0);
  streams.note('one', 1000);
  expect(streams.atLeast('one')).toBe(700);
  expect(streams.atLeast('two')).toBe(0);
});

test('nine in ten streams last as long as expected', () => {
  const streams = new StreamTimes();
  for (let ms = 1000; ms > 0; ms -= 50) streams.note('one', ms);
  expect(streams.atLeast('one')).toBe(150);
});

test('what was long ago is forgotten', () => {
  const streams = new StreamTimes();
  for (let i = 0; i < 64; i++) streams.note('one', 10);
  for (let i = 0; i < 64; i++) streams.note('one', 2000);
  expect(streams.atLeast('one')).toBe(2000);
});
