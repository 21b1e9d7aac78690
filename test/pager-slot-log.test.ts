import { afterEach, beforeEach, expect, test } from 'vitest';
import { close } from '../src/native/files.js';
import { view } from '../src/native/memory.js';
import {
  createSlotLog,
  SlotLog,
  type SlotLogMapping,
  SlotLogWriter,
} from '../src/pager/requests/slot-log.js';
import { testRandom } from './support/seed.js';

const RECORDS = 16384;
let mapping: SlotLogMapping;
let writer: SlotLogWriter;
let log: SlotLog;
beforeEach(() => {
  mapping = createSlotLog();
  writer = new SlotLogWriter(mapping.address);
  log = new SlotLog(mapping.address);
});
afterEach(() => {
  log.close(); // unmaps
  close(mapping.fd);
});

const drained = (of = log): number[] => {
  const slots: number[] = [];
  of.drain((slot) => slots.push(slot));
  return slots;
};
const write = (from: number, count: number): void => {
  for (let i = 0; i < count; i++) writer.note(from + i);
};

test('reads are told once, in order', () => {
  expect(drained()).toEqual([]);
  for (const slot of [7, 3, 3, 9]) writer.note(slot);
  expect(drained()).toEqual([7, 3, 3, 9]);
  expect(drained()).toEqual([]);
  expect(log.lost).toBe(0);
});

test('a reader that comes later begins with what is read from then on', () => {
  write(1, 10);
  const later = new SlotLog(mapping.address);
  writer.note(77);
  expect(drained(later)).toEqual([77]);
});

test('a reader that stays away loses the oldest, and knows how many', () => {
  write(0, RECORDS + 100);
  const slots = drained();
  expect(slots.length + log.lost).toBe(RECORDS + 100);
  expect(log.lost).toBe(101);
  expect(slots[0]).toBe(101);
  expect(slots.at(-1)).toBe(RECORDS + 99);
  write(5, 1);
  expect(drained()).toEqual([5]);
});

test('what is written over while it is read is not told', () => {
  write(0, 10);
  // The writer overtakes between the two looks at the count.
  const load = Atomics.load;
  let looks = 0;
  Atomics.load = ((array: Uint32Array, index: number) => {
    if (++looks === 2) write(100_000, RECORDS - 4);
    return load(array, index);
  }) as typeof Atomics.load;
  try {
    // One more than was written over: the next may be under way.
    expect(drained()).toEqual([7, 8, 9]);
    expect(log.lost).toBe(7);
  } finally {
    Atomics.load = load;
  }
  expect(drained()).toHaveLength(RECORDS - 4);
});

test('nothing is told wrong or out of order, however writer and reader alternate, nor when the count wraps', () => {
  const random = testRandom('pager-slot-log');
  new Uint32Array(view(mapping.address, 4))[0] = 2 ** 32 - 3 * RECORDS;
  log = new SlotLog(mapping.address);
  let written = 0;
  let next = 0;
  for (let step = 0; step < 3000; step++) {
    const some = random.below(200) === 0 ? random.below(2 * RECORDS) : random.below(100);
    write(written, some);
    written += some;
    if (random.below(4) === 0) continue;
    const lostBefore = log.lost;
    const slots = drained();
    next += log.lost - lostBefore;
    expect(slots).toEqual(Array.from(slots, (_, i) => next + i));
    next += slots.length;
    expect(next).toBe(written);
  }
  expect(written).toBeGreaterThan(4 * RECORDS);
  expect(log.lost).toBeGreaterThan(0);
});

test('another process maps it by its descriptor', () => {
  const other = SlotLog.of(process.pid, mapping.fd);
  write(1, 3);
  expect(drained(other)).toEqual([1, 2, 3]);
  other.close();
  other.close();
  write(4, 1);
  expect(drained(other)).toEqual([]);
});
