import { afterEach, beforeEach, expect, test } from 'vitest';
import { drainAgentZip } from '../src/plugin/drain.js';
import type { Progress } from '../src/plugin/progress.js';
import { Family } from './support/family.js';
import { Service, swappedBytes } from './support/service.js';

const PAGES = 2048;
const NAMES = ['one', 'two'];
const LIMIT = { timeout: 120_000 };

let service: Service;
let family: Family;
let pids: number[];
beforeEach(async () => {
  service = await Service.start();
  family = await Family.start();
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  pids = [];
  for (const [i, name] of NAMES.entries()) {
    pids.push(await family.fork(name));
    expect(await family.ask(name, `mix ${name} ${PAGES}`)).toBe('ok');
    await service.client.putSandbox(name, { template: 'base', tenant: 'acme', pids: [pids[i]] });
  }
});
afterEach(async () => {
  await family?.stop();
  await service?.stop();
});

async function expectAllBack(): Promise<void> {
  await service.isClean();
  for (const [i, name] of NAMES.entries()) {
    expect(swappedBytes(pids[i])).toBe(0);
    expect(await family.ask(name, 'verify')).toBe('ok');
  }
}

test('SIGTERM pages living sandboxes back in and leaves the host clean', LIMIT, async () => {
  await service.event('llm_request_sent', ...NAMES);
  for (const name of NAMES) await service.out(name);
  expect(await service.end('SIGTERM')).toBe(0);
  await expectAllBack();
});

test('SIGTERM in the middle of a page-out does the same', LIMIT, async () => {
  await service.event('llm_request_sent', ...NAMES);
  await expect.poll(() => swappedBytes(pids[0]), { interval: 2, timeout: 5000 }).toBeGreaterThan(0);
  expect(await service.end('SIGTERM')).toBe(0);
  await expectAllBack();
});

test('a drain tells how much is left, from all that was out to nothing', LIMIT, async () => {
  await service.event('llm_request_sent', ...NAMES);
  for (const name of NAMES) await service.out(name);
  const out = pids.reduce((sum, pid) => sum + swappedBytes(pid), 0);
  const told: Progress[] = [];
  expect(await drainAgentZip(service.runtimeDir, (progress) => told.push(progress))).toBe('service');
  expect(told[0]).toMatchObject({ done: 0 });
  expect(told[0].total).toBeGreaterThanOrEqual(out);
  const left = told.map(({ total, done }) => total - done);
  expect(left).toEqual([...left].sort((a, b) => b - a));
  await expectAllBack();
});
