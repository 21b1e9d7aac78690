import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { settled } from '../src/controller/windows/settle.js';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** When it settles and how, with so many writes in flight at each time (ms since the start). */
async function watch(writes: (ms: number) => number, signal = new AbortController().signal) {
  const started = Date.now();
  let end: { ok: boolean; ms: number } | undefined;
  void settled('/dev/none', signal, () => writes(Date.now() - started)).then(
    (ok) => (end = { ok, ms: Date.now() - started }),
  );
  await vi.advanceTimersByTimeAsync(5000);
  return end;
}

test('an idle device has settled after the time a write needs to get there', async () => {
  expect(await watch(() => 0)).toEqual({ ok: true, ms: 20 });
});

test('a busy device has settled when it was idle once', async () => {
  expect(await watch((ms) => (ms === 46 ? 0 : 3))).toEqual({ ok: true, ms: 46 });
});

test('a device that is never idle is given up for this pass', async () => {
  const end = await watch(() => 1);
  expect(end?.ok).toBe(false);
  expect(end?.ms).toBeLessThan(600);
});

test('the end of the window ends the wait, and nothing is claimed', async () => {
  const window = new AbortController();
  setTimeout(() => window.abort(), 7);
  expect(await watch(() => 0, window.signal)).toEqual({ ok: false, ms: 7 });
});
