import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import type { TemplateStatus } from '../src/controller/api.js';
import { AgentZipError } from '../src/errors.js';
import type { PartialPolicy } from '../src/policy/policy.js';
import { readPackRegions } from '../src/store/pack.js';
import { Bench, until } from './support/controller.js';
import type { Python } from './support/python.js';
import { ScriptedAdapter } from './support/scripted-adapter.js';

const PAGES = 2000;
const ACME = { tenant: 'acme', template: 'image:1' };
/** What sandboxes of `image:1` have for a template. */
const NAME = /^image-1-[0-9a-f]{8}$/;

let bench: Bench;
let adapter: ScriptedAdapter;
let refuse = false;

async function start(given: PartialPolicy = {}): Promise<void> {
  adapter = new ScriptedAdapter('one');
  const packs = new Map<string, number>();
  const loadPack = ({ path }: { path: string }) => {
    if (!packs.has(path)) packs.set(path, packs.size + 1);
    return { pack: packs.get(path)!, pages: 0, distinctPages: 5 };
  };
  const unloadPack = () => {
    if (refuse)
      throw new AgentZipError('AZ_PAGER_REFUSED', { request: 'unloadPack', reason: 'pages rest on it' });
    return {};
  };
  bench = await Bench.start({ loadPack, unloadPack }, { hosts: { intervalMs: 200 }, ...given }, [adapter]);
}
afterEach(async () => {
  refuse = false;
  await bench.stop();
});

async function python(pages = PAGES): Promise<Python> {
  const started = await bench.python();
  await started.area(pages);
  await started.run(`touch(0, 0, ${pages})`);
  return started;
}

const templates = async (): Promise<TemplateStatus[]> => (await bench.controller.status()).templates;
const files = (): string[] => {
  const folder = `${bench.folder}/captured`;
  return existsSync(folder) ? readdirSync(folder) : [];
};

async function show(...sandboxes: Parameters<ScriptedAdapter['sandbox']>[]): Promise<void> {
  adapter.show(...sandboxes.map((given) => adapter.sandbox(...given)));
  const wanted = sandboxes.map(([name]) => `one:${name}`).join();
  await until(async () => (await bench.controller.status()).sandboxes.map(({ id }) => id).join() === wanted);
}

/** A wait of the sandbox, until its pages begin to go out. */
async function wait(name: string): Promise<void> {
  bench.pager.asked.length = 0;
  bench.controller.event(`one:${name}`, { type: 'llm_request_sent' });
  await until(() => bench.pager.asked.includes(`openWindow one:${name}`));
}

test('the first of a tenant and an image that waits is the template, before its pages go out', async () => {
  await start();
  const [first, second, other] = [await python(), await python(), await python()];
  await show(['a', first.pid, ACME], ['b', second.pid, ACME], ['c', other.pid, { ...ACME, tenant: 'other' }]);
  await wait('a');
  expect(bench.pager.asked.slice(0, 2)).toEqual(['loadPack', 'openWindow one:a']);
  const [template] = await templates();
  expect(template).toMatchObject({ tenant: 'acme', public: false });
  expect(template.id.split('@')).toEqual([expect.stringMatching(NAME), 'acme']);
  expect(template.pages).toBeGreaterThan(PAGES);
  const [file] = files();
  const path = `${bench.folder}/captured/${file}`;
  expect([statSync(path).mode & 0o777, statSync(`${bench.folder}/captured`).mode & 0o777]).toEqual([
    0o600, 0o700,
  ]);
  expect(readPackRegions(path).meta).toEqual({
    id: template.id.split('@')[0],
    tenant: 'acme',
    public: false,
  });
  // It is there for the next, and not for another tenant's.
  await wait('b');
  expect(bench.pager.asked).not.toContain('loadPack');
  await wait('c');
  expect(bench.pager.asked).toContain('loadPack');
  expect((await templates()).map(({ tenant }) => tenant)).toEqual(['acme', 'other']);
});

test.each<[string, PartialPolicy, Parameters<ScriptedAdapter['sandbox']>[2]]>([
  ['without a tenant', {}, { template: 'image:1' }],
  ['without a template', {}, { tenant: 'acme' }],
  ['where the policy says no', { hosts: { intervalMs: 200, capture: { enabled: false } } }, ACME],
  ['where nobody shares', { trust: { domain: 'sandbox' } }, ACME],
])('none is captured %s', async (_what, policy, origin) => {
  await start(policy);
  const { pid } = await python();
  await show(['a', pid, origin]);
  await wait('a');
  expect([await templates(), files()]).toEqual([[], []]);
});

test('none is captured of what a host has registered, or has a template for', async () => {
  await start();
  const [first, second] = [await python(), await python()];
  await bench.controller.putTemplate('py', { pid: first.pid, tenant: 'acme' });
  await show(['a', second.pid, { tenant: 'acme', template: 'py' }]);
  await wait('a');
  expect((await templates()).map(({ id }) => id)).toEqual(['py']);
  expect(files()).toEqual([]);
});

test('a first token ends it, and nothing is left of it until a later wait', async () => {
  await start();
  const { pid } = await python(40_000);
  await show(['a', pid, ACME]);
  bench.controller.event('one:a', { type: 'llm_request_sent' });
  await until(() => files().length > 0);
  bench.controller.event('one:a', { type: 'llm_first_token' });
  await until(() => files().length === 0);
  expect(bench.pager.asked).not.toContain('loadPack');
  await wait('a');
  expect(await templates()).toHaveLength(1);
});

test('there are no more than the policy allows, and one that is in use stays', async () => {
  await start({ hosts: { intervalMs: 200, capture: { templates: 1 } } });
  const [first, second] = [await python(), await python()];
  const other = { ...ACME, tenant: 'other' };
  await show(['a', first.pid, ACME], ['b', second.pid, other]);
  await wait('a');
  await wait('b');
  expect((await templates()).map(({ tenant }) => tenant)).toEqual(['acme']);
  expect((await bench.controller.status()).templateWarnings).toEqual([
    expect.stringMatching(
      /^no template of image-1-.*@other is captured: .*hosts\.capture in the policy allows no more$/,
    ),
  ]);
  // Its sandbox has gone: it makes room.
  await show(['b', second.pid, other]);
  bench.controller.event('one:b', { type: 'llm_first_token' });
  await wait('b');
  expect((await templates()).map(({ tenant }) => tenant)).toEqual(['other']);
  expect((await bench.controller.status()).templateWarnings).toEqual([]);
  expect(files()).toHaveLength(1);
});

test('nor do they take more disk', async () => {
  await start({ hosts: { intervalMs: 200, capture: { maxMiB: 16 } } });
  const { pid } = await python(5000);
  await show(['a', pid, ACME]);
  await wait('a');
  expect(files()).toEqual([]);
});

test('one that no sandbox is of is dropped, once no stored page rests on it', async () => {
  await start({ hosts: { intervalMs: 200, capture: { unusedMs: 1000 } } });
  const { pid } = await python();
  await show(['a', pid, ACME]);
  await wait('a');
  refuse = true;
  await show();
  await until(() => bench.pager.asked.includes('unloadPack'));
  expect(files()).toHaveLength(1);
  refuse = false;
  await until(async () => files().length === 0 && (await templates()).length === 0);
});

test('what an earlier run has left is used again, and what is damaged removed', async () => {
  await start();
  const { pid } = await python();
  await show(['a', pid, ACME]);
  await wait('a');
  const [file] = files();
  const [before] = await templates();
  const { folder } = bench;
  writeFileSync(`${folder}/captured/damaged.pack`, 'no pack');
  mkdirSync(`${folder}/captured/other`);
  const later = await Bench.start({}, {}, [], folder);
  try {
    expect((await later.controller.status()).templates).toMatchObject([
      { id: before.id, pages: before.pages },
    ]);
    expect(files().sort()).toEqual([file, 'other'].sort());
  } finally {
    await later.stop();
  }
});
