import { expect, test } from 'vitest';
import { byteTable, wordTable } from '../src/memory/page-table.js';

test('it holds what was set, in ascending order, far apart or not', () => {
  const table = wordTable();
  const pages = [0x7ffffffff, 511, 512, 0x7f0000123];
  pages.forEach((page, i) => table.set(page, i + 1));
  const seen: [number, number][] = [];
  table.forEach((page, value) => seen.push([page, value]));
  expect(seen).toEqual([
    [511, 2],
    [512, 3],
    [0x7f0000123, 4],
    [0x7ffffffff, 1],
  ]);
  expect(table.get(513)).toBe(0);
  expect(table.get(12345678)).toBe(0);
});

test('0 takes an entry out', () => {
  const table = byteTable();
  table.set(7, 1);
  table.set(7, 0);
  table.forEach(() => expect.unreachable());
});
