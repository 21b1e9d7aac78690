import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { lookAt } from '../src/memory/look.js';
import { identify } from '../src/memory/process.js';
import { PagerClient } from '../src/pager/client.js';
import { Probes } from '../src/telemetry/probes.js';
import { PAGE, probesMissing, Recorder, Toucher } from './fixtures/toucher.js';
import { testRandom } from './support/seed.js';
import { Service } from './support/service.js';

const PAGES = 4096;
/** Runs of pages that a tool reads in order, for which the kernel reads ahead, and pages by themselves. */
const RUNS = 40;
const RUN_PAGES = 12;
const SINGLE = 300;
/** Until what was read has been told, and what was only read ahead has been given up. */
const QUIET_MS = 300;
/**
 * How far counts by reads may be from those by probes. While the tool runs a page is missing that the kernel had read ahead
 * for another one, and that the tool came to more than 20 ms later; the look at the page table after the phase adds it.
 */
const TOLERANCE = { meanwhile: 0.1, afterwards: 0.02 };
const LIMIT = { timeout: 120_000 };

let service: Service | undefined;
let toucher: Toucher | undefined;
let probes: Probes | undefined;
afterEach(async () => {
  probes?.close();
  await toucher?.end();
  await service?.stop();
  service = toucher = probes = undefined;
});

async function swapType(): Promise<number> {
  const pager = await PagerClient.connect(`${service!.runtimeDir}/pager.sock`);
  try {
    return (await pager.request('hello', {})).swapType;
  } finally {
    pager.close();
  }
}

/** Pages of the toucher that are out, as page numbers. */
async function pagesOut(): Promise<Set<number>> {
  const look = lookAt(identify(toucher!.pid)!, { flags: false, swapType: await swapType() });
  const pages = new Set<number>();
  look!.slots.forEach((page) => pages.add(page));
  return pages;
}

/** Page numbers in the toucher's region that a tool may read: runs and single pages, in random order. */
function plan(): number[] {
  const random = testRandom('end-to-end-demand');
  const steps = [
    ...Array.from({ length: RUNS }, () => {
      const first = random.below(PAGES - RUN_PAGES);
      return Array.from({ length: RUN_PAGES }, (_, i) => first + i);
    }),
    ...Array.from({ length: SINGLE }, () => [random.below(PAGES)]),
  ];
  return steps
    .map((pages) => ({ pages, key: random.below(1 << 30) }))
    .sort((a, b) => a.key - b.key)
    .flatMap(({ pages }) => pages);
}

test.skipIf(probesMissing() !== null)(
  'the pager’s reads tell the demand faults of a tool as probes of its page faults do',
  LIMIT,
  async () => {
    service = await Service.start({ prefetch: { enabled: false } });
    toucher = await Toucher.start(PAGES);
    const { client } = service;
    expect((await client.status()).probes).toMatchObject({ faults: 'reads', warnings: [] });
    expect((await client.status()).probes.attached).not.toContain('fault_user');
    await toucher.do('storm', PAGES);
    await client.putSandbox('one', { pids: [toucher.pid] });
    await service.event('llm_request_sent', 'one');
    await service.out('one');
    await service.event('tool_start', 'one');
    await sleep(QUIET_MS);
    const before = { out: await pagesOut(), sandbox: await client.getSandbox('one') };
    const { reads } = await service.pagerStatus();

    probes = Probes.load();
    probes.track(toucher.pid, 1);
    const pages = plan();
    for (let i = 0; i < pages.length; i += 50) await toucher.do('read', ...pages.slice(i, i + 50));
    const seen = new Recorder();
    probes.poll(seen);
    const faulted = new Set(seen.faults.map(({ address }) => Math.floor(address / PAGE)));
    const demand = [...faulted].filter((page) => before.out.has(page)).length;
    expect(demand).toBeGreaterThan(new Set(pages).size - 1);

    await sleep(QUIET_MS);
    const counted = (await client.getSandbox('one')).demandFaults - before.sandbox.demandFaults;
    const read = (await service.pagerStatus()).reads - reads;
    await service.event('llm_request_sent', 'one');
    await service.out('one');
    const after = (await client.getSandbox('one')).demandFaults - before.sandbox.demandFaults;
    process.stdout.write(
      `probes ${demand}; reads ${counted}, ${after} after the phase; slots read ${read}\n`,
    );
    expect(Math.abs(counted - demand)).toBeLessThanOrEqual(TOLERANCE.meanwhile * demand);
    expect(Math.abs(after - demand)).toBeLessThanOrEqual(TOLERANCE.afterwards * demand);
    // The kernel has read ahead; that is not counted.
    expect(read).toBeGreaterThan(1.2 * demand);
    expect((await client.status()).probes.lostReads).toBe(0);
  },
);

test.skipIf(probesMissing() !== null)(
  'probes of page faults can be had instead, and tell the same',
  LIMIT,
  async () => {
    service = await Service.start({ prefetch: { enabled: false }, detect: { faults: 'probes' } });
    toucher = await Toucher.start(PAGES);
    const { client } = service;
    const { faults, attached } = (await client.status()).probes;
    expect([faults, attached.includes('fault_user')]).toEqual(['probes', true]);
    await toucher.do('storm', PAGES);
    await client.putSandbox('one', { pids: [toucher.pid] });
    await service.event('llm_request_sent', 'one');
    await service.out('one');
    await service.event('tool_start', 'one');
    const before = (await client.getSandbox('one')).demandFaults;
    const pages = plan();
    for (let i = 0; i < pages.length; i += 50) await toucher.do('read', ...pages.slice(i, i + 50));
    await sleep(QUIET_MS);
    const counted = (await client.getSandbox('one')).demandFaults - before;
    const least = new Set(pages).size;
    expect(counted).toBeGreaterThanOrEqual(least * (1 - TOLERANCE.afterwards));
    expect(counted).toBeLessThan(least * 1.5);
  },
);
