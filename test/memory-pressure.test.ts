import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parsePressure, readHostMemory, readPressure } from '../src/memory/pressure.js';

test('a recorded /proc/pressure/memory is read', () => {
  const text = `some avg10=29.36 avg60=14.79 avg300=5.30 total=21417480
full avg10=0.69 avg60=0.33 avg300=0.18 total=2062134
`;
  expect(parsePressure(text)).toEqual({
    some: { avg10: 29.36, avg60: 14.79, avg300: 5.3, totalUs: 21_417_480 },
    full: { avg10: 0.69, avg60: 0.33, avg300: 0.18, totalUs: 2_062_134 },
  });
});

test.each([
  ['nothing', ''],
  // /proc/pressure/cpu before 5.13.
  ['a file without full', 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n'],
  ['something else', 'nr_running 3\n'],
])('%s is no pressure', (_, text) => {
  expect(parsePressure(text)).toBeNull();
});

test('this host tells, or says why it does not', () => {
  const pressure = readPressure();
  if (existsSync('/proc/pressure/memory') && !('missing' in pressure)) {
    expect(pressure.some.totalUs).toBeGreaterThanOrEqual(pressure.full.totalUs);
    expect(pressure.some.avg10).toBeLessThanOrEqual(100);
  } else expect(pressure).toEqual({ missing: expect.stringContaining('/proc/pressure/memory') as string });
  expect(readPressure('/proc/pressure/none')).toEqual({ missing: '/proc/pressure/none: ENOENT' });
  const { totalBytes, availableBytes } = readHostMemory();
  expect(availableBytes).toBeGreaterThan(0);
  expect(availableBytes).toBeLessThan(totalBytes);
});
