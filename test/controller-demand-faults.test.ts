import { readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { noteSlots } from '../src/controller/claims/claims.js';
import { DemandFaults } from '../src/controller/faults/demand-faults.js';
import type { Member } from '../src/controller/sandboxes/member.js';
import { Registry } from '../src/controller/sandboxes/registry.js';
import type { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import { SlotOwners } from '../src/controller/claims/slot-owners.js';
import { Mark } from '../src/controller/prefetch/usage.js';
import { PAGE } from '../src/native/libc.js';
import { Python } from './support/python.js';
import { testRandom } from './support/seed.js';

const SLOTS = 4096;
let python: Python;
let registry: Registry;
let owners: SlotOwners;
let sandbox: Sandbox;
let member: Member;
/** First page of an area of 16, and of what the pager read since the last poll. */
let first: number;
let log: number[];
let faults: DemandFaults;
const found: number[] = [];

beforeEach(async () => {
  python = await Python.start();
  first = (await python.area(16)) / PAGE;
  const own = { pids: [process.pid], userNamespace: readlinkSync('/proc/self/ns/user') };
  registry = new Registry(own, { track: () => null, untrack: () => {}, retire: () => {} });
  owners = new SlotOwners(SLOTS);
  sandbox = registry.add('one', { pids: [python.pid] }, 'domain');
  member = sandbox.members.get(python.pid) as Member;
  // As if all of the area was out, page 0 in slot 100.
  member.refresh({ flags: false, swapType: 31 });
  for (let i = 0; i < 16; i++) member.look?.slots.set(first + i, 100 + i);
  noteSlots({ owners, registry }, sandbox);
  log = [];
  const reads = {
    drain: (visit: (slot: number) => void) => log.splice(0).forEach((slot) => visit(slot)),
    lost: 0,
    close: () => {},
  };
  faults = new DemandFaults(reads, registry, owners);
  found.length = 0;
});
afterEach(async () => {
  registry.remove(sandbox);
  await python.stop();
});

const poll = (): boolean =>
  faults.poll((_sandbox, of, page) => {
    of.usage.demanded(page);
    found.push(page - first);
  });

test('a page that was read and is mapped was waited for, in the order of the reads', async () => {
  await python.run('touch(0, 0, 4)');
  log.push(103, 101);
  expect(poll()).toBe(false);
  expect(found).toEqual([3, 1]);
  // Told once.
  log.push(101);
  poll();
  expect(found).toEqual([3, 1]);
});

test('a read that is under way is told when the page is mapped, one that was ahead of the tool never', async () => {
  log.push(105, 106);
  expect(poll()).toBe(true);
  expect(found).toEqual([]);
  await python.run('touch(0, 5, 1)');
  poll();
  expect(found).toEqual([5]);
  await sleep(30);
  poll();
  await python.run('touch(0, 6, 1)');
  expect(poll()).toBe(false);
  expect(found).toEqual([5]);
});

test('what was put back says nothing of tools, also when it comes to be mapped by us', async () => {
  await python.run('touch(0, 0, 8)');
  member.usage.putBack(first, Mark.READY);
  member.usage.ask(first + 2);
  log.push(100, 102);
  poll();
  expect(found).toEqual([2]);
  // Asked for, read for a tool that has not got it yet, and then mapped by the prefetch.
  log.push(109);
  expect(poll()).toBe(true);
  member.usage.putBack(first + 9, Mark.MAPPED);
  await python.run('touch(0, 9, 1)');
  expect(poll()).toBe(false);
  expect(found).toEqual([2]);
});

test('a page that a tool waited for while it was put back unmapped counts as waited for', async () => {
  log.push(104);
  poll();
  member.usage.putBack(first + 4, Mark.READY);
  await python.run('touch(0, 4, 1)');
  poll();
  expect(found).toEqual([4]);
  expect(member.usage.mark(first + 4)).toBe(Mark.USED);
});

test('slots of strangers, of other pages and of a program that has gone are nobody’s', async () => {
  await python.run('touch(0, 0, 16)');
  // 101 went to another page since; 500 is nobody's; beyond the device there is nothing.
  member.look?.slots.set(first + 1, 300);
  log.push(101, 500, SLOTS, 0);
  poll();
  log.push(102);
  member.replaced();
  poll();
  expect(found).toEqual([]);
});

test('while it is muted nothing counts', async () => {
  await python.run('touch(0, 0, 4)');
  faults.muted = true;
  log.push(101);
  poll();
  faults.muted = false;
  log.push(102);
  poll();
  expect(found).toEqual([2]);
});

test('a slot that a fork shares is of the process that mapped it', async () => {
  const child = Number(await python.run('fork()'));
  registry.join(sandbox, child);
  const other = sandbox.members.get(child) as Member;
  other.refresh({ flags: false, swapType: 31 });
  other.look?.slots.set(first + 7, 107);
  await python.run('touch(0, 7, 1)');
  const of: number[] = [];
  log.push(107);
  faults.poll((_sandbox, { pid }) => of.push(pid));
  expect(of).toEqual([python.pid]);
});

test('the table says whose page a slot has, whatever was there before', () => {
  const random = testRandom('controller-demand-faults');
  const table = new SlotOwners(SLOTS);
  const truth = new Map<number, { tag: number; page: number }>();
  for (let step = 0; step < 20_000; step++) {
    const slot = random.integer(1, SLOTS);
    const tag = random.integer(1, 4);
    // Up to 57-bit addresses.
    const page = random.below(2 ** 22) * 2 ** 23 + random.below(2 ** 23);
    const stays = random.below(2) === 0;
    const before = truth.get(slot);
    const taken = before === undefined || before.tag === tag || !stays;
    expect(table.take(slot, tag, page, () => stays)).toBe(taken);
    if (taken) truth.set(slot, { tag, page });
    if (step % 5000 === 4999) {
      table.forget(2);
      for (const [at, { tag: of }] of truth) if (of === 2) truth.delete(at);
    }
  }
  for (let slot = 0; slot < SLOTS; slot++) {
    const { tag, page } = truth.get(slot) ?? { tag: 0, page: -1 };
    expect(table.tagOf(slot)).toBe(tag);
    if (tag !== 0) expect(table.pageOf(slot)).toBe(page);
  }
});

test('a slot that another sandbox’s last look shows stays with that one', async () => {
  const second = await Python.start();
  try {
    const two = registry.add('two', { pids: [second.pid] }, 'domain');
    const theirs = two.members.get(second.pid) as Member;
    theirs.refresh({ flags: false, swapType: 31 });
    theirs.look?.slots.set(77, 100);
    theirs.look?.slots.set(78, 115);
    member.look?.slots.set(first + 15, 200);
    noteSlots({ owners, registry }, two);
    expect([owners.tagOf(100), owners.tagOf(115)]).toEqual([sandbox.tag, two.tag]);
    expect(owners.pageOf(115)).toBe(78);
    registry.remove(two);
  } finally {
    await second.stop();
  }
});
