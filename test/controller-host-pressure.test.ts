import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HostPressure, isShort, type HostReader } from '../src/controller/windows/host-pressure.js';
import type { Pressure } from '../src/memory/pressure.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';

const GIB = 2 ** 30;
const thresholds = DEFAULT_POLICY.pressure;

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const stalls = (some: number, full: number): Pressure => {
  const stall = (avg10: number) => ({ avg10, avg60: 0, avg300: 0, totalUs: 0 });
  return { some: stall(some), full: stall(full) };
};
const memory = (percent: number) => ({ totalBytes: 100 * GIB, availableBytes: percent * GIB });

test('a host is short when little is available, or when tasks wait for memory and not much is', () => {
  const short = (percent: number, pressure: Pressure | null, before = false) =>
    isShort(memory(percent), pressure, thresholds, before);
  expect(short(14, null)).toBe(true);
  expect(short(16, null)).toBe(false);
  expect(short(40, stalls(11, 0))).toBe(true);
  expect(short(40, stalls(0, 3))).toBe(true);
  expect(short(40, stalls(9, 1))).toBe(false);
  // A sandbox at its own limit makes its tasks wait, not the host.
  expect(short(60, stalls(90, 50))).toBe(false);
});

test('short it stays until it is clearly better', () => {
  expect(isShort(memory(16), null, thresholds, true)).toBe(true);
  expect(isShort(memory(19), null, thresholds, true)).toBe(false);
  expect(isShort(memory(40), stalls(9, 0), thresholds, true)).toBe(true);
  expect(isShort(memory(40), stalls(7, 0), thresholds, true)).toBe(false);
});

test('it is looked at every second, and told once when it becomes short', () => {
  let available = 50;
  const reader: HostReader = { memory: () => memory(available), pressure: () => stalls(0, 0) };
  const host = new HostPressure(thresholds, reader);
  const told = vi.fn();
  host.onShort = told;
  vi.advanceTimersByTime(3000);
  expect(host.short).toBe(false);
  available = 10;
  vi.advanceTimersByTime(3000);
  expect(host.short).toBe(true);
  expect(told).toHaveBeenCalledTimes(1);
  expect(host.status()).toMatchObject({ availableBytes: 10 * GIB, somePercent: 0, short: true });
  host.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('without pressure information the available memory decides, and one warning names the remedy', () => {
  const reader: HostReader = { memory: () => memory(10), pressure: () => ({ missing: 'ENOENT' }) };
  const host = new HostPressure(thresholds, reader);
  vi.advanceTimersByTime(5000);
  expect(host.short).toBe(true);
  expect(host.warnings).toEqual([expect.stringMatching(/^AZ_PSI_MISSING.*CONFIG_PSI=y.*psi=1/)]);
  expect(host.status()).toMatchObject({ somePercent: null, fullPercent: null });
  host.close();
});
