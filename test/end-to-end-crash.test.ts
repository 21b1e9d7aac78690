import { existsSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { Service, swappedBytes } from './support/service.js';

const PAGES = 2048;
const NAMES = ['one', 'two'];
const LIMIT = { timeout: 120_000 };

let service: Service;
let family: Family;
let pids: number[];

/** Two sandboxes that are out when the controller is killed. */
beforeEach(async () => {
  service = await Service.start();
  family = await Family.start();
  pids = [];
  for (const name of NAMES) {
    pids.push(await family.fork(name));
    expect(await family.ask(name, `mix ${name} ${PAGES}`)).toBe('ok');
  }
  await register();
  await service.event('llm_request_sent', ...NAMES);
  for (const name of NAMES) await service.out(name);
  expect(await service.end('SIGKILL')).toBe('SIGKILL');
});
afterEach(async () => {
  await family?.stop();
  await service?.stop();
});

async function register(): Promise<void> {
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
  for (const [i, name] of NAMES.entries()) {
    await service.client.putSandbox(name, { template: 'base', tenant: 'acme', pids: [pids[i]] });
  }
}

test('sandboxes of a killed controller go on, and the next one takes over', LIMIT, async () => {
  expect(swappedBytes(pids[0])).toBeGreaterThan(PAGES * 4096);
  expect(await family.ask('one', 'verify')).toBe('ok');

  const { pagerPid, device } = service;
  await service.start();
  expect([service.pagerPid, service.device]).toEqual([pagerPid, device]);
  await expect(service.client.getSandbox('one')).rejects.toMatchObject({ code: 'AZ_UNKNOWN_SANDBOX' });
  await register();
  // What went out under the old controller is this one's to account for.
  expect((await service.client.getSandbox('two')).swappedBytes).toBeGreaterThan(PAGES * 4096);

  await service.event('llm_request_sent', ...NAMES);
  for (const name of NAMES) expect((await service.out(name)).ratio).toBeGreaterThan(3);
  await service.event('llm_first_token', ...NAMES);
  for (const name of NAMES) expect(await family.ask(name, 'verify')).toBe('ok');
  expect((await service.client.getSandbox('one')).lastWindow).toMatchObject({ reason: 'first_token' });
  expect((await service.client.status()).pager.corruptPages).toBe(0);
});

test('the pager of a killed controller can be drained alone', LIMIT, async () => {
  const outcome = await service.drain();
  expect(outcome).toEqual({ code: 0, stdout: 'agentzip: drained the pager of a dead service\n', stderr: '' });
  await service.isClean();
  expect(existsSync(`/proc/${service.pagerPid}`)).toBe(false);
  for (const [i, name] of NAMES.entries()) {
    expect(swappedBytes(pids[i])).toBe(0);
    expect(await family.ask(name, 'verify')).toBe('ok');
  }
});
