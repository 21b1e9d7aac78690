import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { MOST_SKIPS, skipReason, type Prospect } from '../src/controller/windows/admission.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { Bench, until } from './support/controller.js';

const UNKNOWN: Prospect = {
  ...{ expectedMs: undefined, lowMs: null, costMs: null, streamMs: 0 },
  skippedInRow: 0,
};
const { pageout, pressure } = DEFAULT_POLICY;
const reason = (known: Partial<Prospect>, { short = false, mode = 'proactive' as const } = {}) =>
  skipReason({ ...UNKNOWN, ...known }, { mode, pageout, pressure }, short);

test('a wait of which nothing is known is used', () => {
  expect(reason({})).toBeNull();
});

test('one that is expected to be short is left alone, and the host knows best', () => {
  expect(reason({ expectedMs: pageout.minWindowMs - 1 })).toBe('expected_short');
  expect(reason({ lowMs: pageout.minWindowMs - 1 })).toBe('predicted_short');
  expect(reason({ lowMs: 1, costMs: 9000, expectedMs: 5000 })).toBeNull();
});

test('one that costs more than it lasts is left alone, but now and then', () => {
  expect(reason({ lowMs: 1000, costMs: 1200 })).toBe('too_dear');
  expect(reason({ lowMs: 1300, costMs: 1200 })).toBeNull();
  // Pages stay out while the model streams.
  expect(reason({ lowMs: 1000, costMs: 1200, streamMs: 300 })).toBeNull();
  expect(reason({ lowMs: 1000, costMs: 1200, skippedInRow: MOST_SKIPS })).toBeNull();
});

test('a host that is short of memory uses shorter waits, at any cost', () => {
  expect(reason({ lowMs: pressure.minWindowMs }, { short: true })).toBeNull();
  expect(reason({ lowMs: pressure.minWindowMs - 1 }, { short: true })).toBe('predicted_short');
  expect(reason({ lowMs: 1000, costMs: 9000 }, { short: true })).toBeNull();
});

test('in the mode pressure waits are used only when memory is short', () => {
  const policy = { mode: 'pressure' as const, pageout, pressure };
  expect(skipReason({ ...UNKNOWN, expectedMs: 60_000 }, policy, false)).toBe('memory_suffices');
  expect(skipReason({ ...UNKNOWN, expectedMs: 60_000 }, policy, true)).toBeNull();
});

let bench: Bench | undefined;
afterEach(async () => {
  await bench?.stop();
  bench = undefined;
});

async function sandbox(policy: Parameters<typeof Bench.start>[1]) {
  bench = await Bench.start({}, policy);
  const { controller } = bench;
  const python = await bench.python();
  await controller.putSandbox('one', { pids: [python.pid] });
  return { controller, status: () => controller.getSandbox('one') };
}

test('waits that turn out short are soon left alone, counted and told of', async () => {
  const { controller, status } = await sandbox({});
  for (let turn = 0; turn < 8; turn++) {
    controller.event('one', { type: 'llm_request_sent', model: 'small' });
    await sleep(20);
    controller.event('one', { type: 'llm_first_token' });
    await sleep(20);
  }
  expect(await status()).toMatchObject({ windows: 4, skippedWindows: 4, lastSkip: 'predicted_short' });
  controller.event('one', { type: 'llm_request_sent', expectedMs: 5000 });
  await until(async () => (await status()).windows === 5);
});

test('in the mode pressure a host with memory to spare opens no window', async () => {
  const { controller, status } = await sandbox({
    mode: 'pressure',
    pressure: { availablePercent: 0, somePercent: 100, fullPercent: 100 },
  });
  controller.event('one', { type: 'llm_request_sent', expectedMs: 60_000 });
  expect(await status()).toMatchObject({ windows: 0, skippedWindows: 1, lastSkip: 'memory_suffices' });
  expect(await controller.status()).toMatchObject({ enabled: true, memory: { short: false } });
});

test('and one that is short of memory does', async () => {
  const { controller, status } = await sandbox({ mode: 'pressure', pressure: { availablePercent: 100 } });
  controller.event('one', { type: 'llm_request_sent' });
  await until(async () => (await status()).windows === 1);
  expect((await controller.status()).memory.short).toBe(true);
});
