import { afterEach, beforeEach, expect, test } from 'vitest';
import { Bench, until } from './support/controller.js';
import { HostLayout } from './support/host-layout.js';
import { ScriptedAdapter } from './support/scripted-adapter.js';
import { testRandom } from './support/seed.js';

let bench: Bench;
let layout: HostLayout;
let machines: ScriptedAdapter;
beforeEach(async () => {
  layout = new HostLayout();
  machines = new ScriptedAdapter('vms');
  bench = await Bench.start({}, { hosts: { intervalMs: 200 } }, [machines]);
});
afterEach(async () => {
  await bench.stop();
  await layout.stop();
});

const PAGES = 64;
const file = (name: string): string => layout.file(name, testRandom(name).bytes(PAGES * 4096));
const templates = async () => (await bench.controller.status()).templates;

async function machine(name: string, more: Parameters<ScriptedAdapter['sandbox']>[2]) {
  const { pid } = await bench.python();
  return machines.sandbox(name, pid, { template: 'memory-1-2', tenant: 'acme', ...more });
}

test('the memory file that machines run on becomes their template, once', async () => {
  const memoryFile = file('base.mem');
  machines.show(await machine('a', { memoryFile }), await machine('b', { memoryFile }));
  await until(async () => (await templates()).length === 1);
  expect((await templates())[0]).toMatchObject({ id: 'memory-1-2', tenant: 'acme', pages: PAGES });
  const looks = machines.looks;
  await until(() => machines.looks > looks + 2);
  expect(bench.pager.asked).toEqual(['loadPack']);
});

test('a file that machines could not use, or that is left alone, is not read', async () => {
  const memoryFile = file('base.mem');
  machines.show(
    await machine('nobodys', { memoryFile, tenant: undefined }),
    await machine('observed', { memoryFile, mode: 'observe' }),
  );
  const looks = machines.looks;
  await until(() => machines.looks > looks + 2);
  expect(await templates()).toEqual([]);
});

test('a file that is refused is warned of, and its machines are served without', async () => {
  const sandbox = await machine('a', { memoryFile: layout.path('absent.mem') });
  machines.show(sandbox);
  const warnings = async () => (await bench.controller.status()).hosts[0].warnings;
  await until(async () => (await warnings()).length === 1);
  expect((await warnings())[0]).toMatch(/^memory-1-2: .*absent\.mem/);
  bench.controller.event(sandbox.id, { type: 'llm_request_sent' });
  await until(() => bench.pager.asked.includes(`openWindow ${sandbox.id}`));
});
