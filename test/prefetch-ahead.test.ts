import { readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Following } from '../src/controller/sandboxes/following.js';
import { Forerunner } from '../src/controller/prefetch/forerunner.js';
import type { OnDemand } from '../src/controller/faults/demand-faults.js';
import type { Member } from '../src/controller/sandboxes/member.js';
import { Policies } from '../src/controller/policies.js';
import type { Predictor } from '../src/controller/prefetch/predictor.js';
import { Registry } from '../src/controller/sandboxes/registry.js';
import type { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import { Mark } from '../src/controller/prefetch/usage.js';
import { PAGE } from '../src/native/libc.js';
import type { PagerClient } from '../src/pager/client.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { LivePolicy } from '../src/policy/live.js';
import { Probes } from '../src/telemetry/probes.js';
import { Python } from './support/python.js';
import { until } from './support/controller.js';

let python: Python;
let registry: Registry;
let sandbox: Sandbox;
let member: Member;
/** Pages that the tool had before they were ready. */
let early: number[];
/** Slots that the pager was told of. */
let expected: number[];
/** First page of an area of 64. */
let first: number;

beforeEach(async () => {
  expected = [];
  early = [];
  python = await Python.start();
  first = (await python.area(64)) / PAGE;
  const own = { pids: [process.pid], userNamespace: readlinkSync('/proc/self/ns/user') };
  registry = new Registry(own, { track: () => null, untrack: () => {}, retire: () => {} });
  sandbox = registry.add('one', { pids: [python.pid] }, 'domain');
  member = sandbox.members.get(python.pid) as Member;
  sandbox.prefetchRoom = 100;
});
afterEach(async () => {
  sandbox.endWindow('shutdown');
  registry.remove(sandbox);
  await python.stop();
});

/** One that expects the four pages behind each that was waited for. */
function forerunner(enabled = true): Forerunner {
  const policy = { ...DEFAULT_POLICY, prefetch: { ...DEFAULT_POLICY.prefetch, enabled } };
  const follow = (_sandbox: Sandbox, of: Member, page: number): number[] =>
    [1, 2, 3, 4].map((distance) => page + distance).filter((near) => of.usage.mark(near) === Mark.NONE);
  const policies = new Policies(new LivePolicy(policy));
  const waited: OnDemand = (_sandbox, of, page) => void (of.usage.demanded(page) && early.push(page));
  const pager = { expect: async (slots: Uint32Array) => void expected.push(...slots) };
  const context = { policies, pager: pager as unknown as PagerClient, pollProbes: () => {}, waited };
  return new Forerunner(context, { follow } as unknown as Predictor);
}

const ready = (page: number): boolean => member.usage.mark(page) === (Mark.READY | Mark.AHEAD);

test('pages that follow a demand fault are read ahead, each once, and a tool that is quicker counts as waiting', async () => {
  const runner = forerunner();
  member.refresh({ flags: false, swapType: 31 });
  for (let page = 0; page < 64; page++) member.look?.slots.set(first + page, 100 + page);
  runner.demanded(sandbox, member, first);
  runner.demanded(sandbox, member, first + 1);
  expect(member.usage.mark(first + 4)).toBe(Mark.ASKED);
  // The tool gets there before the read.
  member.usage.used(first + 2);
  runner.go();
  await until(() => ready(first + 5));
  expect([1, 2, 3, 4, 5, 6].map((distance) => ready(first + distance))).toEqual([
    ...[true, false, true, true, true, false],
  ]);
  expect(sandbox.prefetchRoom).toBe(95);
  // All of it is announced, so that it is not taken for what a tool waits for.
  expect(expected).toEqual([101, 102, 103, 104, 105]);
});

test('what a tool has mapped before it was ready it had to wait for, whether or not that was told', async () => {
  const runner = forerunner();
  await python.run('touch(0, 2, 1)');
  runner.demanded(sandbox, member, first);
  runner.go();
  await until(() => ready(first + 4));
  expect(early).toEqual([first + 2]);
  expect(member.usage.mark(first + 2) & (Mark.USED | Mark.READY)).toBe(Mark.USED);
  expect([1, 3, 4].every((distance) => ready(first + distance))).toBe(true);
});

test('it keeps to the room that the policy leaves', async () => {
  sandbox.prefetchRoom = 2;
  const runner = forerunner();
  runner.demanded(sandbox, member, first);
  runner.demanded(sandbox, member, first + 10);
  runner.go();
  await until(() => ready(first + 2));
  expect(ready(first + 3)).toBe(false);
  expect(member.usage.mark(first + 11)).toBe(Mark.NONE);
});

test('it does nothing while the sandbox waits, is paused, or without a prefetch', () => {
  sandbox.paused = true;
  forerunner().demanded(sandbox, member, first);
  sandbox.paused = false;
  forerunner(false).demanded(sandbox, member, first);
  sandbox.openWindow({ type: 'llm_request_sent' }, null);
  forerunner().demanded(sandbox, member, first);
  expect(member.usage.mark(first + 1)).toBe(Mark.NONE);
});

test('probes are polled often for a while after a tool has started', async () => {
  let polls = 0;
  const probes = Probes.load({ objectPath: '/absent.o' });
  probes.poll = () => ++polls;
  const following = new Following(probes, registry, () => {});
  following.hurry();
  await sleep(150);
  following.close();
  expect(polls).toBeGreaterThan(10);
  const before = polls;
  await sleep(100);
  expect(polls).toBe(before);
});
