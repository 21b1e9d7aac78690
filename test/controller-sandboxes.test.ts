import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { HostEvent, SandboxSpec } from '../src/controller/api.js';
import { Bench, until } from './support/controller.js';

/** Longer than what a status shows of a process may be old. */
const SHOWN_MS = 1100;

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start();
});
afterEach(() => bench.stop());

const refused = (id: string, spec: SandboxSpec, code: string) =>
  expect(bench.controller.putSandbox(id, spec)).rejects.toMatchObject({ code });

test('a sandbox has its processes, and says what they own', async () => {
  const python = await bench.python();
  await python.area(1000);
  const before = await bench.controller.putSandbox('one', { pids: [python.pid], tenant: 'acme' });
  expect(before).toMatchObject({
    id: 'one',
    tenant: 'acme',
    phase: 'unknown',
    pids: [python.pid],
    ratio: null,
  });
  await python.run('touch(0, 0, 1000)');
  const child = Number(await python.run('fork()'));
  const after = await bench.controller.getSandbox('one');
  expect(after.pids).toEqual([python.pid, child]);
  const status = await bench.controller.status();
  expect(status.sandboxes.map(({ id }) => id)).toEqual(['one']);
  await bench.controller.deleteSandbox('one');
  expect((await bench.controller.status()).sandboxes).toEqual([]);
});

test('owned memory follows what the processes touch', async () => {
  const python = await bench.python();
  await python.area(1000);
  const before = await bench.controller.putSandbox('one', { pids: [python.pid] });
  await python.run('touch(0, 0, 1000)');
  const after = await bench.controller.getSandbox('one');
  expect(after.ownedBytes - before.ownedBytes).toBeGreaterThanOrEqual(1000 * 4096);
});

test('a status looks at one process after the other, and other work is done in between', async () => {
  const python = await bench.python();
  const children = 12;
  for (let i = 0; i < children; i++) await python.run('fork()');
  await bench.controller.putSandbox('one', { pids: [python.pid] });
  await sleep(SHOWN_MS);
  let turns = 0;
  let counting = true;
  const count = (): void => {
    turns++;
    if (counting) setImmediate(count);
  };
  count();
  const status = await bench.controller.status();
  counting = false;
  expect(status.sandboxes[0].pids).toHaveLength(children + 1);
  expect(turns).toBeGreaterThan(children);
});

test('the same registration again changes nothing, another is refused', async () => {
  const python = await bench.python();
  const spec = { pids: [python.pid], tenant: 'acme' };
  await bench.controller.putSandbox('one', spec);
  await bench.controller.putSandbox('one', spec);
  await refused('one', { ...spec, tenant: 'other' }, 'AZ_BAD_REQUEST');
});

test('the name of a sandbox that has ended can be used again', async () => {
  const first = await bench.python();
  await bench.controller.putSandbox('one', { pids: [first.pid] });
  await first.stop();
  const second = await bench.python();
  const status = await bench.controller.putSandbox('one', { pids: [second.pid], tenant: 'acme' });
  expect(status).toMatchObject({ tenant: 'acme', pids: [second.pid] });
});

test('a process belongs to one sandbox', async () => {
  const python = await bench.python();
  await bench.controller.putSandbox('one', { pids: [python.pid] });
  await refused('two', { pids: [python.pid] }, 'AZ_PROCESS_CLAIMED');
  await bench.controller.deleteSandbox('one');
  await bench.controller.putSandbox('two', { pids: [python.pid] });
});

test('what can not be registered is refused', async () => {
  const python = await bench.python();
  await refused('one', { pids: [process.pid] }, 'AZ_OWN_PROCESS');
  await refused('one', { pids: [2 ** 22 + 1] }, 'AZ_NO_SUCH_PROCESS');
  await refused('one', { cgroup: 'agentzip-test-absent' }, 'AZ_NO_SUCH_CGROUP');
  await refused('one', { pids: [python.pid], template: 'absent' }, 'AZ_UNKNOWN_TEMPLATE');
  await refused('', { pids: [python.pid] }, 'AZ_BAD_REQUEST');
  await refused('x'.repeat(200), { pids: [python.pid] }, 'AZ_BAD_REQUEST');
  expect((await bench.controller.status()).sandboxes).toEqual([]);
});

test("a process of another user's namespace is refused", async () => {
  const child = spawn('unshare', ['--user', 'sleep', '30'], { stdio: 'ignore' });
  try {
    const mine = readlinkSync('/proc/self/ns/user');
    await until(() => readlinkSync(`/proc/${child.pid}/ns/user`) !== mine);
    await refused('one', { pids: [child.pid as number] }, 'AZ_FOREIGN_NAMESPACE');
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

test('requests for what is not registered say so', async () => {
  await expect(bench.controller.getSandbox('none')).rejects.toMatchObject({ code: 'AZ_UNKNOWN_SANDBOX' });
  await expect(bench.controller.deleteSandbox('none')).rejects.toMatchObject({ code: 'AZ_UNKNOWN_SANDBOX' });
  const unknown = expect.objectContaining({ code: 'AZ_UNKNOWN_SANDBOX' });
  expect(() => bench.controller.event('none', { type: 'tool_end' })).toThrow(unknown);
});

test('an event of no known type is refused', async () => {
  const python = await bench.python();
  await bench.controller.putSandbox('one', { pids: [python.pid] });
  const event = { type: 'coffee' } as unknown as HostEvent;
  expect(() => bench.controller.event('one', event)).toThrow(
    expect.objectContaining({ code: 'AZ_UNKNOWN_EVENT' }),
  );
});

test('a pager that is gone is named, and no window opens any more', async () => {
  const python = await bench.python();
  await bench.controller.putSandbox('one', { pids: [python.pid] });
  bench.pager.stop();
  await bench.controller.pagerGone;
  await expect(bench.controller.status()).rejects.toMatchObject({ code: 'AZ_PAGER_LOST' });
  bench.controller.event('one', { type: 'llm_request_sent' });
});
