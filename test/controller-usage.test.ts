import { expect, test } from 'vitest';
import { isDemand, Mark, Usage } from '../src/controller/prefetch/usage.js';
import { usesOf } from '../src/controller/prefetch/prefetch-model.js';

test('a page that was left out was used when it came back', () => {
  const usage = new Usage();
  expect(usage.verdict(1, 'present')).toBe(true);
  expect(usage.verdict(1, 'out')).toBe(false);
  expect(usage.verdict(1, 'unmapped')).toBe(false);
});

test('a page that was made ready shows every use; one that was mapped only its first write', () => {
  const usage = new Usage();
  usage.putBack(1, Mark.READY);
  usage.putBack(2, Mark.MAPPED);
  expect([usage.verdict(1, 'out'), usage.verdict(1, 'present')]).toEqual([false, true]);
  expect(usage.verdict(2, 'present')).toBeNull();
  usage.used(2);
  expect(usage.verdict(2, 'present')).toBe(true);
});

test('a fault is told once', () => {
  const usage = new Usage();
  expect(usage.used(1)).toBe(true);
  expect(usage.used(1)).toBe(false);
});

test('a tool waits for what was not put back, and for what is only asked for', () => {
  const usage = new Usage();
  usage.ask(2);
  usage.putBack(3, Mark.READY);
  usage.putBack(4, Mark.MAPPED);
  expect([1, 2, 3, 4].map((page) => isDemand(usage.mark(page)))).toEqual([true, true, false, false]);
});

test('a page that was used before it came back had to be waited for', () => {
  const usage = new Usage();
  usage.ask(1);
  usage.used(1);
  usage.putBack(1, Mark.MAPPED);
  expect(isDemand(usage.mark(1))).toBe(true);
});

test('what did not come back after all has to be waited for', () => {
  const usage = new Usage();
  usage.putBack(1, Mark.MAPPED);
  usage.missing(1);
  expect(isDemand(usage.mark(1))).toBe(true);
});

test('a history has the last phase in bit 0, and marks end with the phase', () => {
  const usage = new Usage();
  usage.putBack(1, Mark.READY);
  for (const used of [true, false, true]) usage.endPhase([1, 2], (page) => used && page === 1);
  expect(usesOf(usage.history(1))).toBe(0b101);
  expect(usesOf(usage.history(2))).toBe(0);
  expect(usage.mark(1)).toBe(Mark.NONE);
});

test('a page that is not there any more is forgotten once its last use is 16 phases ago', () => {
  const usage = new Usage();
  usage.endPhase([1], () => true);
  for (let phase = 0; phase < 15; phase++) usage.endPhase([], () => false);
  expect(usesOf(usage.history(1))).toBe(1 << 15);
  usage.endPhase([], () => false);
  expect(usage.history(1)).toBe(0);
});

test('steps tell early use from late use, and stay until the page faults again', () => {
  const usage = new Usage();
  for (let page = 0; page < 3000; page++) usage.used(page);
  usage.endPhase([], () => false);
  const steps = [0, 63, 64, 255, 256, 1023, 1024, 2999, 9999].map((page) => usage.step(page));
  expect(steps).toEqual([1, 1, 2, 2, 3, 3, 4, 4, 4]);
});

test('a page is hot for as many phases after its use as are asked for', () => {
  const usage = new Usage();
  usage.endPhase([1], () => true);
  expect([usage.isHot(1, 0), usage.isHot(1, 1), usage.isHot(2, 1)]).toEqual([false, true, false]);
  usage.endPhase([], () => false);
  expect([usage.isHot(1, 1), usage.isHot(1, 2), usage.isHot(1, 16)]).toEqual([false, true, true]);
});
