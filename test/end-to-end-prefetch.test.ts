import { readdirSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { Service } from './support/service.js';

const PAGES = 4096;
/** What the tool reads, and never writes. */
const READ_PAGES = 1024;
const PHASES = 6;
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

/** One wait, then a tool that reads its pages. Returns what that cost, the prefetch being done before. */
async function phase(name: string): Promise<{ demand: number; prefetched: number }> {
  const { client } = service;
  await client.event(name, { type: 'llm_request_sent' });
  const before = await service.out(name);
  await client.event(name, { type: 'llm_first_token' });
  await client.event(name, { type: 'llm_response_end', tool: 'read' });
  await expect
    .poll(async () => (await client.getSandbox(name)).lastWindow?.prefetchedPages)
    .not.toBeUndefined();
  const settled = async (): Promise<boolean> => {
    const { prefetchedPages, lastWindow } = await client.getSandbox(name);
    return prefetchedPages - before.prefetchedPages === lastWindow?.prefetchedPages;
  };
  await expect.poll(settled, { timeout: 10_000, interval: 100 }).toBe(true);
  await client.event(name, { type: 'tool_start', tool: 'read' });
  expect(await family.ask(name, `read 512 ${READ_PAGES}`)).toBe('ok');
  await client.event(name, { type: 'tool_end' });
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
  expect(first.demand).toBeGreaterThan(READ_PAGES * 0.7);
  let last = first;
  for (let i = 1; i < PHASES; i++) last = await phase('one');
  expect(last.demand).toBeLessThan(0.1 * first.demand);
  // What the tool does not touch stays out.
  expect(last.prefetched).toBeLessThan(1.3 * first.demand);

  // A sibling has the use of it from the start.
  await sandbox('two');
  expect((await phase('two')).demand).toBeLessThan(0.3 * first.demand);
  const [{ prefetch }] = (await service.client.status()).templates;
  expect(prefetch.accuracy).toBeGreaterThan(0.8);
  expect(prefetch.coverage).toBeGreaterThan(0.5);
  for (const name of ['one', 'two']) expect(await family.ask(name, 'verify')).toBe('ok');
});

test('what was learnt survives a restart', LIMIT, async () => {
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('one');
  const first = await phase('one');
  for (let i = 1; i < 3; i++) await phase('one');
  expect(await service.drain()).toMatchObject({ code: 0 });
  await service.ended();
  expect(readdirSync(`${service.folder}/state/prefetch`)).toHaveLength(1);

  await service.start();
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('two');
  expect((await phase('two')).demand).toBeLessThan(0.4 * first.demand);
  expect(await family.ask('two', 'verify')).toBe('ok');
});
