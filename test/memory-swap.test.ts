import { expect, test } from 'vitest';
import { memInfo, parseSwaps } from '../src/memory/swap.js';

test('swap areas are listed in bytes', () => {
  const text = `Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority
/dev/loop3                              partition\t2097148\t\t64\t\t32767
/swapfile                               file\t\t1024\t\t0\t\t-2
`;
  expect(parseSwaps(text)).toEqual([
    { path: '/dev/loop3', kind: 'partition', sizeBytes: 2097148 * 1024, usedBytes: 65536, priority: 32767 },
    { path: '/swapfile', kind: 'file', sizeBytes: 1 << 20, usedBytes: 0, priority: -2 },
  ]);
  expect(parseSwaps('Filename\tType\n')).toEqual([]);
});

test('a value of meminfo is found by its whole name', () => {
  const text = 'MemTotal:       100 kB\nMemFree:         40 kB\nSwapCached:       7 kB\n';
  expect(memInfo('MemFree', text)).toBe(40 * 1024);
  expect(memInfo('Swap', text)).toBe(0);
});
