import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MAX_SANDBOXES } from '../src/controller/sandboxes/registry.js';
import type { HostStatus, SandboxStatus } from '../src/controller/api.js';
import { AgentZipError } from '../src/errors.js';
import { Bench, until } from './support/controller.js';
import type { Python } from './support/python.js';
import { ScriptedAdapter } from './support/scripted-adapter.js';

const INTERVAL_MS = 200;

let bench: Bench;
let one: ScriptedAdapter;
let two: ScriptedAdapter;
let python: Python;
beforeEach(async () => {
  one = new ScriptedAdapter('one');
  two = new ScriptedAdapter('two');
  bench = await Bench.start({}, { hosts: { intervalMs: INTERVAL_MS } }, [one, two]);
  python = await bench.python();
});
afterEach(() => bench.stop());

const sandboxes = async (): Promise<SandboxStatus[]> => (await bench.controller.status()).sandboxes;
const ids = async (): Promise<string[]> => (await sandboxes()).map(({ id }) => id);
const host = async (name: string): Promise<HostStatus> =>
  (await bench.controller.status()).hosts.find((status) => status.name === name)!;
const becomes = (expected: string[]): Promise<void> =>
  until(async () => JSON.stringify(await ids()) === JSON.stringify(expected));

test('a sandbox that is found is registered, with what its platform says of it', async () => {
  const origin = { template: `sha256:${'ab'.repeat(32)}`, tenant: 'acme' };
  one.show(one.sandbox('box', python.pid, { ...origin, hazards: ['no_swap'], mode: 'observe' }));
  await becomes(['one:box']);
  expect((await sandboxes())[0]).toMatchObject({
    ...{ tenant: 'acme', template: `sha256-${'ab'.repeat(32)}`, pids: [python.pid] },
    ...{ host: 'one', mode: 'observe', why: 'the test says so', hazards: ['no_swap'] },
  });
  expect(await host('one')).toEqual({
    ...{ name: 'one', sandboxes: 1, claimed: 0, following: true, warnings: [] },
  });
});

test('what is there before the service is ready needs no first interval', async () => {
  const early = new ScriptedAdapter('early');
  early.found = [early.sandbox('box', python.pid)];
  const other = await Bench.start({}, { hosts: { intervalMs: 600_000 } }, [early]);
  try {
    expect((await other.controller.status()).sandboxes.map(({ id }) => id)).toEqual(['early:box']);
  } finally {
    await other.stop();
  }
});

test('a sandbox that is not found any more is let go, and one that has changed is another', async () => {
  const second = await bench.python();
  one.show(one.sandbox('box', python.pid));
  await becomes(['one:box']);
  one.show(one.sandbox('box', second.pid));
  await until(async () => (await sandboxes())[0]?.pids[0] === second.pid);
  one.show();
  await becomes([]);
});

test('a sandbox that is paused stays registered as it was, until it is resumed', async () => {
  one.show(one.sandbox('box', python.pid, { template: 'base' }));
  await becomes(['one:box']);
  await bench.controller.prePause('one:box');
  one.show(one.sandbox('box', python.pid, { template: 'other' }));
  const looks = one.looks;
  await until(() => one.looks > looks + 1);
  bench.controller.event('one:box', { type: 'llm_request_sent' });
  expect((await sandboxes())[0]).toMatchObject({ template: 'base', windows: 0 });
  bench.controller.postResume('one:box');
  await until(async () => (await sandboxes())[0]?.template === 'other');
});

test('without being told it is found at the next interval', async () => {
  one.found = [one.sandbox('box', python.pid)];
  await becomes(['one:box']);
});

test('what a host has registered is not touched', async () => {
  const second = await bench.python();
  await bench.controller.putSandbox('mine', { pids: [python.pid] });
  one.show(one.sandbox('same', python.pid), one.sandbox('other', second.pid));
  await becomes(['mine', 'one:other']);
  await until(async () => (await host('one')).claimed === 1);
  one.show();
  await becomes(['mine']);
  expect(await host('one')).toMatchObject({ warnings: [] });
});

test('what a host registers takes the place of what was found in it', async () => {
  one.show(one.sandbox('box', python.pid));
  await becomes(['one:box']);
  await bench.controller.putSandbox('mine', { pids: [python.pid], tenant: 'acme' });
  expect(await ids()).toEqual(['mine']);
  const looks = one.looks;
  await until(() => one.looks > looks + 1);
  expect(await ids()).toEqual(['mine']);
});

test('no host can give an id of those that are found', async () => {
  const put = bench.controller.putSandbox('one:box', { pids: [python.pid] });
  await expect(put).rejects.toMatchObject({ code: 'AZ_BAD_REQUEST' });
});

test('an observed sandbox gets no window, one that is not does', async () => {
  one.show(one.sandbox('box', python.pid, { mode: 'observe' }));
  await becomes(['one:box']);
  bench.controller.event('one:box', { type: 'llm_request_sent' });
  expect(bench.pager.asked).toEqual([]);
  one.show(one.sandbox('box', python.pid, { why: 'the hazard is gone' }));
  await until(async () => (await sandboxes())[0].mode === 'reclaim');
  expect((await sandboxes())[0]).toMatchObject({ why: 'the hazard is gone', windows: 0 });
  bench.controller.event('one:box', { type: 'llm_request_sent' });
  await until(() => bench.pager.asked.includes('openWindow one:box'));
});

test('a hazard that appears ends the window', async () => {
  one.show(one.sandbox('box', python.pid));
  await becomes(['one:box']);
  bench.controller.event('one:box', { type: 'llm_request_sent' });
  await until(() => bench.pager.asked.includes('openWindow one:box'));
  one.show(one.sandbox('box', python.pid, { mode: 'observe', hazards: ['userfaultfd'] }));
  await until(() => bench.pager.asked.includes('closeWindow one:box'));
  await until(async () => (await sandboxes())[0].lastWindow?.reason === 'shutdown');
});

test('the same holds of what a host registers', async () => {
  const spec = { pids: [python.pid] };
  const put = await bench.controller.putSandbox('mine', { ...spec, mode: 'observe' });
  expect(put).toMatchObject({ host: null, mode: 'observe', why: null, hazards: [] });
  bench.controller.event('mine', { type: 'llm_request_sent' });
  expect(bench.pager.asked).toEqual([]);
  expect(await bench.controller.putSandbox('mine', spec)).toMatchObject({ mode: 'reclaim' });
});

test('a platform that can not be asked keeps its sandboxes, harms no other, and is warned of once', async () => {
  const second = await bench.python();
  one.show(one.sandbox('box', python.pid));
  await becomes(['one:box']);
  one.trouble = new AgentZipError('AZ_NO_ROUTE', { method: 'GET', path: '/none' });
  two.show(two.sandbox('box', second.pid));
  await becomes(['one:box', 'two:box']);
  const looks = one.looks;
  await until(() => one.looks > looks + 1);
  expect((await host('one')).warnings).toEqual([expect.stringContaining('AZ_NO_ROUTE: GET /none')]);
  expect(await ids()).toEqual(['one:box', 'two:box']);
  // Those that have ended are let go all the same.
  await python.stop();
  await becomes(['two:box']);
  one.trouble = null;
  one.found = [];
  await until(async () => (await host('one')).warnings.length === 0);
});

test('a platform that never answers holds nobody up', async () => {
  one.trouble = new Promise<never>(() => {});
  one.listener?.changed();
  two.show(two.sandbox('box', python.pid));
  await becomes(['two:box']);
});

test('a sandbox that can not be served is warned of, and the others are served', async () => {
  const child = spawn('unshare', ['--user', 'sleep', '30'], { stdio: 'ignore' });
  try {
    const mine = readlinkSync('/proc/self/ns/user');
    await until(() => readlinkSync(`/proc/${child.pid}/ns/user`) !== mine);
    one.show(
      one.sandbox('foreign', child.pid as number),
      one.sandbox('ended', 2 ** 22 + 1),
      one.sandbox('box', python.pid),
      one.sandbox('box', python.pid),
    );
    await becomes(['one:box']);
    expect((await host('one')).warnings.sort()).toEqual([
      'one:box: there are two of that name',
      expect.stringContaining('one:foreign: AZ_FOREIGN_NAMESPACE'),
    ]);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

test('warnings and sandboxes are bounded', async () => {
  one.show(
    ...Array.from({ length: MAX_SANDBOXES + 1 }, (_, i) =>
      one.sandbox(`box${i}`, python.pid, { cgroup: 'x' }),
    ),
  );
  await until(async () => (await host('one')).warnings.length > 0);
  const { warnings } = await host('one');
  expect(warnings).toHaveLength(17);
  expect(warnings[0]).toBe(`only ${MAX_SANDBOXES} of ${MAX_SANDBOXES + 1} are served`);
  expect(warnings.at(-1)).toMatch(/^and \d+ more$/);
});

test('what it was followed by is gone: it is warned of, and followed again', async () => {
  const { follows } = one;
  // It is followed again as soon as it can be looked at.
  one.trouble = new AgentZipError('AZ_NO_ROUTE', { method: 'GET', path: '/containers' });
  one.listener?.failed(new AgentZipError('AZ_NO_ROUTE', { method: 'GET', path: '/events' }));
  expect(await host('one')).toMatchObject({
    following: false,
    warnings: expect.arrayContaining([expect.stringContaining('/events')]),
  });
  one.trouble = null;
  await until(() => one.follows > follows);
  expect(await host('one')).toMatchObject({ following: true, warnings: [] });
});

test('calls that a platform tells of are tool phases, until the host speaks', async () => {
  one.show(one.sandbox('box', python.pid));
  await becomes(['one:box']);
  const phase = async (): Promise<string> => (await sandboxes())[0].phase;
  one.listener?.tool('one:box', 'tool_start', 'sh');
  one.listener?.tool('one:box', 'tool_start', 'sh');
  one.listener?.tool('one:box', 'tool_end');
  expect(await phase()).toBe('tool_running');
  one.listener?.tool('one:box', 'tool_end');
  expect(await phase()).toBe('idle');
  one.listener?.tool('one:unknown', 'tool_start');
  two.listener?.tool('one:box', 'tool_start');
  expect(await phase()).toBe('idle');
  bench.controller.event('one:box', { type: 'llm_first_token' });
  one.listener?.tool('one:box', 'tool_start', 'sh');
  expect(await phase()).toBe('llm_streaming');
});

test('a sandbox that its platform has frozen waits, and goes on when it is thawed', async () => {
  one.show(one.sandbox('box', python.pid));
  await becomes(['one:box']);
  one.listener?.frozen?.('one:box', true);
  await until(() => bench.pager.asked.includes('openWindow one:box'));
  one.listener?.frozen?.('one:box', false);
  await until(async () => (await sandboxes())[0].lastWindow?.reason === 'tool_start');
  expect((await sandboxes())[0].phase).toBe('tool_running');
});
