import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cgroupMounts } from '../src/memory/cgroup.js';
import { memInfo } from '../src/memory/swap.js';
import { Family } from './support/family.js';
import { Service, swappedBytes } from './support/service.js';
import { attribute, readSpans, type Span } from './support/spans.js';

const PAGES = 4096;
const BYTES = PAGES * 4096;
const LIMIT = { timeout: 120_000 };
const CGROUP = `${cgroupMounts().find(({ memory }) => memory)?.path}/agentzip-test-window-${process.pid}`;

let service: Service;
let family: Family;
beforeEach(async () => {
  service = await Service.start();
  family = await Family.start();
  mkdirSync(CGROUP);
});
afterEach(async () => {
  await family?.stop();
  await expect.poll(() => rmdirSync(CGROUP)).toBeUndefined();
  await service?.stop();
});

/** Forks a sandbox, fills it and registers it, by cgroup when one is given. */
async function sandbox(name: string, more: { seed?: string; tenant?: string; cgroup?: string } = {}) {
  const { seed = name, tenant = 'acme', cgroup } = more;
  const pid = await family.fork(name);
  if (cgroup !== undefined) writeFileSync(`${cgroup}/cgroup.procs`, String(pid));
  expect(await family.ask(name, `mix ${seed} ${PAGES}`)).toBe('ok');
  await service.client.putSandbox(name, {
    template: 'base',
    tenant,
    ...(cgroup === undefined ? { pids: [pid] } : { cgroup }),
  });
  return pid;
}

const spans = (): Span[] => readSpans(`${service.folder}/spans`);

test('four sandboxes wait, shrink, and go on with every byte right', LIMIT, async () => {
  const { client } = service;
  await client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  const names = ['one', 'two', 'three', 'four'];
  const pids = [];
  for (const name of names) pids.push(await sandbox(name, name === 'four' ? { cgroup: CGROUP } : {}));

  await service.event('llm_request_sent', ...names);
  for (const name of names) {
    const { swappedBytes: out, ratio } = await service.out(name);
    expect(out).toBeGreaterThan(BYTES);
    expect(ratio).toBeGreaterThan(3);
  }
  // What is out but still cached would be no memory won.
  expect(memInfo('SwapCached')).toBeLessThan(0.1 * names.length * BYTES);
  const { encodings } = (await client.status()).pager;
  const built = { ...encodings, delta: encodings.delta + encodings.sparse };
  for (const encoding of ['same', 'duplicate', 'delta', 'zstd'] as const) {
    expect([encoding, built[encoding]]).toEqual([encoding, expect.toSatisfy((pages) => pages > PAGES / 8)]);
  }

  await service.event('llm_first_token', ...names);
  await service.event('tool_start', ...names);
  for (const name of names) expect(await family.ask(name, 'verify')).toBe('ok');
  await service.event('tool_end', ...names);

  await service.event('llm_request_sent', ...names);
  for (const name of names) await service.out(name);
  await service.event('llm_first_token', ...names);
  await service.event('llm_response_end', ...names);
  for (const name of names) {
    await expect.poll(async () => (await client.getSandbox(name)).prefetchedPages).toBeGreaterThan(PAGES / 2);
    expect((await client.getSandbox(name)).lastWindow).toMatchObject({ reason: 'first_token' });
    expect(await family.ask(name, 'verify')).toBe('ok');
  }

  await service.event('llm_request_sent', ...names);
  for (const name of names) await service.out(name);
  expect(await service.drain()).toEqual({ code: 0, stdout: 'agentzip: drained\n', stderr: '' });
  expect(await service.ended()).toBe(0);
  await service.isClean();
  for (const [i, name] of names.entries()) {
    expect(swappedBytes(pids[i])).toBe(0);
    expect(await family.ask(name, 'verify')).toBe('ok');
  }
});

test('each window is a span with its steps as children', LIMIT, async () => {
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('one');
  await service.event('llm_request_sent', 'one');
  await service.out('one');
  await service.event('llm_first_token', 'one');
  expect(await family.ask('one', 'verify')).toBe('ok');
  await service.drain();
  await service.ended();
  const window = spans().find(({ name }) => name === 'agentzip.window') as Span;
  expect(attribute(window, 'sandbox.id')).toBe('one');
  expect(attribute(window, 'agentzip.template.id')).toBe('base');
  expect(attribute(window, 'agentzip.window.end_reason')).toBe('first_token');
  expect(attribute(window, 'agentzip.pages')).toBeGreaterThanOrEqual(PAGES);
  // Same-filled pages need no refinement.
  expect(attribute(window, 'agentzip.bytes.in')).toBeGreaterThanOrEqual(BYTES * 0.75);
  expect(attribute(window, 'agentzip.ratio')).toBeGreaterThan(2.5);
  const steps = spans().filter(({ parentSpanId }) => parentSpanId === window.spanId);
  expect(steps.map(({ name }) => name).sort()).toEqual(
    ['pageout', 'prefetch', 'refine'].map((step) => `agentzip.${step}`),
  );
  const [pageout, prefetch, refine] = steps.sort((a, b) => a.name.localeCompare(b.name));
  expect(attribute(pageout, 'agentzip.pages')).toBeGreaterThanOrEqual(PAGES);
  expect(attribute(pageout, 'agentzip.pages.left')).toBeLessThan(256);
  expect(attribute(refine, 'agentzip.pages')).toBeGreaterThanOrEqual(PAGES * 0.75);
  expect(attribute(refine, 'agentzip.pages.left')).toBe(0);
  for (const step of [pageout, refine]) expect(attribute(step, 'agentzip.cpu.ms')).toBeGreaterThan(0);
  expect(attribute(prefetch, 'agentzip.pages')).toBe(0);
  expect(attribute(window, 'agentzip.window.stop_ms')).toBeGreaterThanOrEqual(0);
  // Phases in their order, within the window.
  const phases = ['request', 'paged_out', 'claimed', 'refined', 'first_token'];
  const events = (window.events ?? []).filter(({ name }) => phases.includes(name));
  const times = phases.map((phase) => Number(events.find(({ name }) => name === phase)?.timeUnixNano));
  expect(times[0]).toBeLessThanOrEqual(times[1]);
  expect(times[1]).toBeLessThanOrEqual(times[2]);
  for (const time of times) expect(time).toBeLessThanOrEqual(times[4]);
  expect(Number(window.endTimeUnixNano)).toBe(times[4]);
  expect(Number(refine.startTimeUnixNano)).toBeLessThan(Number(refine.endTimeUnixNano));
});

test('a tenant gains nothing from the pages of another', LIMIT, async () => {
  const { client } = service;
  await client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('one');
  await sandbox('twin', { seed: 'one' });
  await sandbox('rival', { seed: 'one', tenant: 'rival' });
  await service.event('llm_request_sent', 'one', 'twin', 'rival');
  const one = await service.out('one');
  const twin = await service.out('twin');
  const rival = await service.out('rival');
  const { duplicate } = (await client.status()).pager.encodings;
  // Half of the rival's pages have no like but in the other tenant's sandboxes and template: it pays for each itself.
  expect(rival.storedBytes).toBeGreaterThan(BYTES / 2);
  // The two of one tenant have theirs in common: one copy of the common quarter, deltas for the template's.
  expect(one.storedBytes + twin.storedBytes).toBeLessThan(BYTES / 3);
  // Pages equal in all three are duplicates once, of the twin alone; some more are the interpreter's.
  expect(duplicate).toBeLessThan(PAGES * 0.75 + 2048);
  for (const name of ['one', 'twin', 'rival']) expect(await family.ask(name, 'verify')).toBe('ok');
});

test('what is touched while a window sends pages out goes out too', LIMIT, async () => {
  const { client } = service;
  await client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('one');
  await service.event('llm_request_sent', 'one');
  // Longer than a page-out of 16 MiB takes.
  for (const end = Date.now() + 400; Date.now() < end;) await family.ask('one', `read 0 ${PAGES}`);
  const owned = async () => (await client.getSandbox('one')).ownedBytes;
  await expect.poll(owned, { timeout: 10_000 }).toBeLessThan(BYTES / 32);
});

test('what a sandbox touches long after it was sent out goes out again', LIMIT, async () => {
  const { client } = service;
  await client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  await sandbox('one');
  await service.event('llm_request_sent', 'one');
  const owned = async () => (await client.getSandbox('one')).ownedBytes;
  const isOut = async () => expect.poll(owned, { timeout: 15_000 }).toBeLessThan(BYTES / 32);
  await isOut();
  // By then all of it is claimed, and nothing is left to do but to look.
  await sleep(5_000);
  await family.ask('one', `read 0 ${PAGES / 4}`);
  await family.ask('one', `rewrite two ${PAGES / 4} ${PAGES / 4}`);
  expect(await owned()).toBeGreaterThan(BYTES / 4);
  await isOut();
  // What was written has the slots that it had before, as likely as not, and is claimed once more.
  const foreign = async () => (await client.status()).pager.foreignSlots;
  await expect.poll(foreign, { timeout: 10_000 }).toBeLessThan(PAGES / 32);
  expect(await family.ask('one', 'verify')).toBe('ok');
});
