import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { KERNELS } from './support/kernels.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';

const MIB = 1;
const PAGES = MIB * 256;
/** A guest without KVM, on a busy host. */
const GUEST_MS = 500_000;
const DEMO_MS = 1_200_000;
const DEMO_GUEST_MIB = 2048;

// The kernels for clouds have no zswap.
const guest = prepareGuest(KERNELS['6.12']);
const fixture = (name: string, options: object): string =>
  `${process.execPath} ${packageRoot}/test/fixtures/${name}.mjs '${JSON.stringify(options)}'`;

const LIMIT = { timeout: GUEST_MS + 10_000 };

async function changes(on: string, frontEnd: string, kills: readonly string[]): Promise<void> {
  const script = fixture('tier-changes', { frontEnd, mib: MIB, kills });
  const { lines, status } = await runInGuest(on, script, { timeoutMs: GUEST_MS });
  expect(status, lines.join('\n')).toBe(0);
  const found = JSON.parse(lines.find((line) => line.startsWith('{"changes"')) ?? '{}');
  const { steps } = found;
  expect(found).toMatchObject({ corruptPages: 0, takeovers: kills.length });
  expect(steps.map(({ tier }: { tier: string }) => tier)).toEqual(['direct', 'zswap', 'zram', 'direct']);
  for (const { tier, held, written, duplicates } of steps) {
    expect(written, tier).toBeGreaterThan(PAGES);
    // Of the twin; the fixture sees to it that none is the other tenant's.
    expect(duplicates, tier).toBeGreaterThan(0.8 * PAGES);
    if (tier !== 'direct') expect(held, tier).toBeGreaterThan(PAGES);
  }
}

// Before 6.12 other means bring pages out of zswap, and swap that was on before zswap is never zswap's.
const old = LONG ? prepareGuest(KERNELS['6.1']) : null;
test.runIf(old !== null)('the tier changes on a kernel before 6.12 too, over nbd', LIMIT, () =>
  changes(old!, 'nbd', []),
);

test.skipIf(guest === null)(
  'the tier changes while sandboxes wait, or stays when it must; the pager dies meanwhile; tools find all as it was, tenants share nothing',
  LIMIT,
  // Behind zswap too, or only while nothing is swap.
  () => changes(guest!, 'ublk', LONG ? ['zswap', 'change'] : ['change']),
);

// Some eight minutes: the service and a template with numpy, pandas and matplotlib start three times.
test.runIf(LONG && guest !== null)(
  'the demo has the same results without AgentZip, over zswap and over zram',
  { timeout: DEMO_MS + 10_000 },
  async () => {
    const demo = fixture('demo-tiers', { sandboxes: 2, turns: 2, rows: 2000, timeScale: 2 });
    const script = `mount -t tmpfs tmp /var/tmp; ${demo}`;
    const options = { timeoutMs: DEMO_MS, memoryMiB: DEMO_GUEST_MIB };
    const { lines, status } = await runInGuest(guest!, script, options);
    expect(status, lines.join('\n')).toBe(0);
    const {
      demo: identical,
      most,
      stored,
    } = JSON.parse(lines.find((line) => line.startsWith('{"demo"')) ?? '{}');
    expect(identical).toBe(true);
    for (const pages of [most.zswap, most.zram, most.behindZram]) expect(pages).toBeGreaterThan(1000);
    for (const system of ['agentzip-zswap', 'agentzip-zram']) expect(stored[system]).toBeGreaterThan(1000);
  },
);
