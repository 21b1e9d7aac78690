import { Mark } from '../src/controller/prefetch/usage.js';
import { readlinkSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Following } from '../src/controller/sandboxes/following.js';
import { Registry } from '../src/controller/sandboxes/registry.js';
import type { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import type { Member } from '../src/controller/sandboxes/member.js';
import { PAGE } from '../src/native/libc.js';
import { Probes } from '../src/telemetry/probes.js';
import { Python } from './support/python.js';

let python: Python;
let registry: Registry;
let following: Following;
let sandbox: Sandbox;
let member: Member;
const vacant: string[] = [];
const demanded: number[] = [];

beforeEach(async () => {
  python = await Python.start();
  await python.area(4);
  const own = { pids: [process.pid], userNamespace: readlinkSync('/proc/self/ns/user') };
  registry = new Registry(own, { track: () => null, untrack: () => {}, retire: () => {} });
  const probes = Probes.load({ objectPath: '/absent.o' });
  following = new Following(probes, registry, ({ id }) => vacant.push(id), {
    demanded: (_sandbox, _member, page) => demanded.push(page),
    go: () => {},
  });
  sandbox = registry.add('one', { pids: [python.pid] }, 'domain');
  member = sandbox.members.get(python.pid) as Member;
  // Pages 1 to 3 are out.
  member.refresh({ flags: false, swapType: 31 });
  for (const page of [1, 2, 3]) member.look?.slots.set(page, page);
});
afterEach(async () => {
  following.close();
  registry.remove(sandbox);
  await python.stop();
  vacant.length = 0;
  demanded.length = 0;
});

const fault = (page: number, pid = python.pid): void => following.fault(sandbox.tag, pid, page * PAGE + 123);

test('the first fault on a page that was out is a demand fault', () => {
  fault(1);
  fault(1);
  fault(9);
  expect(sandbox.demandFaults).toBe(1);
  expect(demanded).toEqual([1]);
});

test('the first write to a page that was put back shows its use, and is no demand fault', () => {
  member.usage.putBack(1, Mark.MAPPED);
  fault(1);
  expect(sandbox.demandFaults).toBe(0);
  expect(demanded).toEqual([]);
  expect(member.usage.mark(1) & Mark.USED).toBe(Mark.USED);
});

test('faults of strangers are nobody’s', () => {
  fault(1, 1);
  following.fault(999, python.pid, PAGE);
  expect(sandbox.demandFaults).toBe(0);
});

test('children join at fork', async () => {
  const child = Number(await python.run('fork()'));
  following.fork(sandbox.tag, python.pid, child, 1);
  expect([...sandbox.members.keys()]).toEqual([python.pid, child]);
});

test('an exec leaves nothing of what was known of the pages', () => {
  fault(1);
  following.exec(sandbox.tag, python.pid, 'git', 1);
  fault(2);
  expect(member.look).toBeNull();
  sandbox.tools.endPhase();
  expect(sandbox.tools.previous).toBe('git');
  expect(sandbox.demandFaults).toBe(1);
});

test('the last exit makes a sandbox vacant; a stale one changes nothing', async () => {
  following.exit(sandbox.tag, python.pid, 1);
  expect(sandbox.members.size).toBe(1);
  await python.stop();
  following.exit(sandbox.tag, python.pid, 1);
  expect(sandbox.members.size).toBe(0);
  expect(vacant).toEqual(['one']);
});
