import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readlinkSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import type { FoundSandbox } from '../src/hosts/adapter.js';
import { BubblewrapAdapter } from '../src/hosts/bubblewrap.js';
import { commandName, processTree } from '../src/memory/process.js';
import { Srt } from './support/srt.js';

const ANY = { mode: 'reclaim', template: null, tenant: null } as const;
const LIMIT = { timeout: 60_000 };
const running: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) await one.stop();
});

async function srt(): Promise<Srt> {
  const one = await Srt.start();
  running.push(one);
  return one;
}

/** Sandboxes among the descendants of a process: others may run on this machine. */
async function below(pid: number, adapter = new BubblewrapAdapter(ANY)): Promise<FoundSandbox[]> {
  const tree = processTree([pid]);
  return (await adapter.find()).filter(({ pids = [] }) => pids.some((one) => tree.includes(one)));
}

/** Starts a bwrap of the host directly. */
async function bwrap(...args: string[]): Promise<number> {
  const child = spawn('bwrap', ['--die-with-parent', '--dev-bind', '/', '/', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.push({
    stop: async () => {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  });
  await once(child.stdout, 'data');
  return child.pid as number;
}

test('sandboxes of sandbox-runtime are found, each with its own processes alone', LIMIT, async () => {
  const [one, two] = [await srt(), await srt()];
  const [first, ...more] = await below(one.pid);
  expect(more).toEqual([]);
  expect(first).toMatchObject({ mode: 'reclaim', nested: true, hazards: [] });
  expect(first.id).toMatch(/^bubblewrap:\d+-\d+$/);
  const pids = processTree(first.pids ?? []);
  const names = pids.map(commandName);
  expect(names).toEqual(expect.arrayContaining(['bwrap', 'python3', 'socat']));
  // What waits for it and what its traffic goes through are the host's.
  expect(pids).not.toContain(one.pid);
  expect(names).not.toContain('node');
  const python = pids.find((pid) => commandName(pid) === 'python3') as number;
  expect(readlinkSync(`/proc/${python}/ns/user`)).not.toBe(readlinkSync('/proc/self/ns/user'));
  const [second] = await below(two.pid);
  expect(second.id).not.toBe(first.id);
  expect(processTree(second.pids ?? []).filter((pid) => pids.includes(pid))).toEqual([]);
  expect((await below(one.pid)).map(({ id }) => id)).toEqual([first.id]);
});

test(
  'nothing of what a sandbox runs with is told: its arguments hold the password of its proxy',
  LIMIT,
  async () => {
    const one = await srt();
    const [sandbox] = await below(one.pid);
    const outer = processTree([one.pid]).find((pid) => commandName(pid) === 'bwrap');
    const secret = /HTTP_PROXY\0http:\/\/[^:]+:([0-9a-f]{16,})@/.exec(
      readFileSync(`/proc/${outer}/cmdline`, 'utf8'),
    );
    expect(secret).not.toBeNull();
    expect(JSON.stringify(sandbox)).not.toContain(secret?.[1]);
  },
);

test('a sandbox that ends is gone', LIMIT, async () => {
  const one = await srt();
  const [{ id }] = await below(one.pid);
  await one.stop();
  expect((await new BubblewrapAdapter(ANY).find()).map((sandbox) => sandbox.id)).not.toContain(id);
});

test(
  'a bwrap without namespaces of users or pids is a sandbox too, and one within another is not',
  LIMIT,
  async () => {
    const outer = await bwrap('sh', '-c', 'echo ready; exec sleep 60');
    const [sandbox] = await below(outer);
    expect(sandbox).toMatchObject({ mode: 'reclaim' });
    expect(sandbox.nested).toBeUndefined();
    const nesting = await bwrap(
      'bwrap',
      '--die-with-parent',
      '--dev-bind',
      '/',
      '/',
      'sh',
      '-c',
      'echo ready; exec sleep 60',
    );
    expect(await below(nesting)).toHaveLength(1);
  },
);

test('a user namespace that has a device to make readers wait with is observed', LIMIT, async () => {
  const open = await bwrap('--unshare-user', '--unshare-pid', 'sh', '-c', 'echo ready; exec sleep 60');
  const [sandbox] = await below(open);
  expect(sandbox).toMatchObject({ mode: 'observe', why: expect.stringContaining('/dev/fuse') });
});

test('all of them can be declared to come from one template and to belong to one tenant', LIMIT, async () => {
  const outer = await bwrap('sh', '-c', 'echo ready; exec sleep 60');
  const declared = new BubblewrapAdapter({ ...ANY, template: 'base', tenant: 'acme' });
  expect(await below(outer, declared)).toMatchObject([{ template: 'base', tenant: 'acme' }]);
});

test('the policy can have them observed alone', LIMIT, async () => {
  const outer = await bwrap('sh', '-c', 'echo ready; exec sleep 60');
  const observing = new BubblewrapAdapter({ ...ANY, mode: 'observe' });
  expect(await below(outer, observing)).toMatchObject([
    { mode: 'observe', why: 'hosts.bubblewrap.mode in the policy is observe' },
  ]);
});
