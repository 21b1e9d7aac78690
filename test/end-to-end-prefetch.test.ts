import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { Service } from './support/service.js';

const PAGES = 4096;
/** What the tool reads, and never writes. */
const READ_PAGES = 1024;
const PHASES = 6;
const QUIET_MS = 500;
const LIMIT = { timeout: 240_000 };

let service: Service;
let family: Family;
beforeEach(async () => {
  service = await Service.start();
  family = await Family.start();
});
afterEach(async () => {
  await family?.stop();
  await service?.stop();
});

async function sandbox(name: string): Promise<void> {
  const pid = await family.fork(name);
  expect(await family.ask(name, `mix ${name} ${PAGES}`)).toBe('ok');
  await service.client.putSandbox(name, { template: 'base', tenant: 'acme', pids: [pid] });
}

/** Waits until nothing comes back any more. */
async function prefetchDone(name: string): Promise<void> {
  for (let before = -1; ; await sleep(QUIET_MS)) {
    const { swappedBytes, prefetchedPages } = await service.client.getSandbox(name);
    if (before === swappedBytes - prefetchedPages) return;
    before = swappedBytes - prefetchedPages;
  }
}

/** One wait, then a tool that reads its pages. Returns what that cost, the prefetch being done before. */
async function phase(name: string): Promise<{ demand: number; prefetched: number }> {
  const { client } = service;
  // By what was learnt of its waits, which are short here, none would pay.
  await client.event(name, { type: 'llm_request_sent', expectedMs: 60_000 });
  const before = await service.out(name);
  await client.event(name, { type: 'llm_first_token' });
  await client.event(name, { type: 'llm_response_end', tool: 'read' });
  await prefetchDone(name);
  await client.event(name, { type: 'tool_start', tool: 'read' });
  expect(await family.ask(name, `read 512 ${READ_PAGES}`)).toBe('ok');
  await client.event(name, { type: 'tool_end' });
  await sleep(QUIET_MS); // until the probes have been asked
  const after = await client.getSandbox(name);
  return {
    demand: after.demandFaults - before.demandFaults,
    prefetched: after.prefetchedPages - before.prefetchedPages,
  };
}

test('a tool that reads the same pages each time soon has hardly anything to wait for', LIMIT, async () => {
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('one');
  const first = await phase('one');
  // Running ahead helps even when nothing is known yet.
  expect(first.demand).toBeGreaterThan(0.2 * READ_PAGES);
  let last = first;
  for (let i = 1; i < PHASES; i++) last = await phase('one');
  expect(last.demand).toBeLessThan(0.1 * READ_PAGES);
  // What the tool does not touch stays out.
  expect(last.prefetched).toBeLessThan(1.5 * READ_PAGES);

  // A sibling has the use of it from the start.
  await sandbox('two');
  expect((await phase('two')).demand).toBeLessThan(0.2 * READ_PAGES);
  const [{ prefetch }] = (await service.client.status()).templates;
  expect(prefetch.accuracy).toBeGreaterThan(0.8);
  expect(prefetch.coverage).toBeGreaterThan(0.5);
  for (const name of ['one', 'two']) expect(await family.ask(name, 'verify')).toBe('ok');
});

test('what was learnt survives a restart', LIMIT, async () => {
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('one');
  for (let i = 0; i < 3; i++) await phase('one');
  expect(await service.drain()).toMatchObject({ code: 0 });
  await service.ended();
  expect(readdirSync(`${service.folder}/state/prefetch`)).toHaveLength(1);

  await service.start();
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('two');
  expect((await phase('two')).demand).toBeLessThan(0.2 * READ_PAGES);
  expect(await family.ask('two', 'verify')).toBe('ok');
});
