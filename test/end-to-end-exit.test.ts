import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { Service, swappedBytes } from './support/service.js';

const PAGES = 2048;
const LIMIT = { timeout: 120_000 };

let service: Service;
let family: Family;
let busy: ChildProcess | null = null;
beforeEach(async () => {
  service = await Service.start();
  family = await Family.start();
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
});
afterEach(async () => {
  busy?.kill('SIGKILL');
  busy = null;
  await family?.stop();
  await service?.stop();
});

/** Forks a sandbox, fills and registers it, and opens its window. */
async function waiting(name: string): Promise<number> {
  const pid = await family.fork(name);
  expect(await family.ask(name, `mix ${name} ${PAGES}`)).toBe('ok');
  await service.client.putSandbox(name, { template: 'base', tenant: 'acme', pids: [pid] });
  await service.event('llm_request_sent', name);
  return pid;
}

const ownersAtPager = async (): Promise<string[]> =>
  (await service.pagerStatus()).owners.map(({ owner }) => owner);

test('a sandbox that exits in mid window is forgotten, and its pages are freed', LIMIT, async () => {
  await waiting('one');
  await waiting('two');
  await service.out('one');
  await service.out('two');
  const { usedSlots } = await service.pagerStatus();
  expect(await family.ask('one', 'quit')).toBe('ended');
  await expect
    .poll(() => service.client.getSandbox('one'), { timeout: 10_000 })
    .toMatchObject({ pids: [], swappedBytes: 0, lastWindow: { reason: 'exit' } });
  await expect.poll(ownersAtPager, { timeout: 10_000 }).toEqual(['two']);
  await expect
    .poll(async () => (await service.pagerStatus()).usedSlots, { timeout: 10_000 })
    .toBeLessThan(0.7 * usedSlots);
  expect(await family.ask('two', 'verify')).toBe('ok');
  await service.client.deleteSandbox('one');
});

test('a sandbox that exits leaves no page behind, though another forks all the time', LIMIT, async () => {
  busy = spawn('/bin/sh', ['-c', 'while :; do /bin/true; done'], { stdio: 'ignore' });
  await service.client.putSandbox('busy', { tenant: 'acme', pids: [busy.pid as number] });
  await waiting('one');
  await waiting('two');
  await service.out('one');
  await service.out('two');
  // Clusters of 512 slots have pages of both, or of whoever else goes out: of those no kernel tells that a half is free.
  expect(await family.ask('one', 'quit')).toBe('ended');
  await expect.poll(ownersAtPager, { timeout: 10_000 }).toEqual(['two']);
  const others = async (): Promise<number> => {
    const { usedSlots, owners } = await service.pagerStatus();
    return usedSlots - owners.reduce((sum, { slots }) => sum + slots, 0);
  };
  // Some dozens had the template too when they went out, or were not claimed.
  await expect.poll(others, { timeout: 10_000 }).toBeLessThan(PAGES / 10);
  expect(await family.ask('two', 'verify')).toBe('ok');
});

test('a sandbox that exits while it is being paged out harms nobody', LIMIT, async () => {
  await waiting('two');
  await waiting('one');
  expect(await family.ask('one', 'quit')).toBe('ended');
  await expect
    .poll(() => service.client.getSandbox('one'), { timeout: 10_000 })
    .toMatchObject({ pids: [], lastWindow: { reason: 'exit' } });
  await service.out('two');
  expect(await family.ask('two', 'verify')).toBe('ok');
});

test('a deleted sandbox gets all its pages back', LIMIT, async () => {
  const pid = await waiting('one');
  await service.out('one');
  expect(swappedBytes(pid)).toBeGreaterThan(PAGES * 4096);
  await service.client.deleteSandbox('one');
  expect(swappedBytes(pid)).toBe(0);
  expect(await ownersAtPager()).toEqual([]);
  expect(await family.ask('one', 'verify')).toBe('ok');
  await expect(service.client.getSandbox('one')).rejects.toMatchObject({ code: 'AZ_UNKNOWN_SANDBOX' });
});

test('a sandbox is whole from pre-pause to post-resume', LIMIT, async () => {
  const pid = await waiting('one');
  await service.out('one');
  await service.client.prePause('one');
  expect(swappedBytes(pid)).toBe(0);
  await service.event('llm_request_sent', 'one');
  await sleep(500);
  expect(swappedBytes(pid)).toBe(0);
  expect(await service.client.getSandbox('one')).toMatchObject({ windows: 1, swappedBytes: 0 });
  await service.client.postResume('one');
  await service.event('llm_request_sent', 'one');
  await service.out('one');
  await service.client.wake('one');
  expect(swappedBytes(pid)).toBe(0);
  expect(await family.ask('one', 'verify')).toBe('ok');
});
