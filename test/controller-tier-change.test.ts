import { afterEach, beforeEach, expect, test } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import type { TierName } from '../src/pager/swap/tier.js';
import { withDefaults } from '../src/policy/defaults.js';
import { Bench, until } from './support/controller.js';
import { HELLO, NO_REFINING } from './support/scripted-pager.js';

/** The policy wants another tier while a sandbox waits. The changes themselves: tier-changes, in a guest. */
let bench: Bench;
let tier: TierName;
let windows: number;
let refusal: AgentZipError | null;
/** What of windows the pager was told before a change, by change. */
let atChange: number[];
beforeEach(async () => {
  [tier, windows, refusal, atChange] = ['direct', 0, null, []];
  bench = await Bench.start({
    hello: () => ({ ...HELLO, tier }),
    openWindow: () => ((windows += 1), {}),
    closeWindow: () => ((windows -= 1), NO_REFINING),
    changeTier: (request) => {
      atChange.push(windows);
      if (refusal !== null) throw refusal;
      tier = request.tier;
      return {};
    },
  });
  const { pid } = await bench.python();
  await bench.controller.putSandbox('one', { pids: [pid], tenant: 'acme' });
});
afterEach(() => bench.stop());

const want = (wanted: TierName) => {
  const { paths, otel } = bench.live.current;
  return bench.live.apply(withDefaults({ pager: { tier: wanted }, paths, otel }));
};
const status = () => bench.controller.status();

test('no window is open while it is changed, and a wait that goes on has one again', async () => {
  bench.controller.event('one', { type: 'llm_request_sent', expectedMs: 60_000 });
  await until(() => windows === 1);
  expect(want('zram').changed).toEqual(['pager.tier']);
  await until(async () => (await status()).pager.tier === 'zram');
  await until(() => windows === 1);
  expect(atChange).toEqual([0]);
  expect(await bench.controller.getSandbox('one')).toMatchObject({
    windows: 2,
    lastWindow: { reason: 'shutdown' },
  });
  expect((await status()).alerts).toEqual([]);
});

test('what the pager refuses is an alert, the policy says what there is, and reading it anew is another attempt', async () => {
  refusal = new AgentZipError('AZ_DRAIN_MEMORY', { neededMiB: 5, availableMiB: 4 });
  want('zram');
  await until(() => bench.live.current.pager.tier === 'direct');
  expect((await status()).alerts).toMatchObject([
    { code: 'AZ_TIER_CHANGE', message: expect.stringContaining('needs 5 MiB') },
  ]);
  refusal = null;
  expect(want('zram').changed).toEqual(['pager.tier']);
  await until(async () => (await status()).pager.tier === 'zram');
  expect((await status()).alerts).toEqual([]);
});

test('the last that the policy wants counts', async () => {
  want('zram');
  want('zswap');
  want('direct');
  want('zswap');
  await until(async () => (await status()).pager.tier === 'zswap');
  expect(bench.live.current.pager.tier).toBe('zswap');
});
