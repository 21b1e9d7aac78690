import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, expect, test } from 'vitest';
import { claimable } from '../src/controller/claims/claims.js';
import { Member } from '../src/controller/sandboxes/member.js';
import type { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import { ZswapBypass } from '../src/controller/sandboxes/zswap-bypass.js';
import type { Look } from '../src/memory/look.js';
import { wordTable, type PageTable } from '../src/memory/page-table.js';
import { PAGE } from '../src/native/libc.js';
import type { Pager } from '../src/pager/client.js';

const folder = mkdtempSync(`${tmpdir()}/agentzip-zswap-`);
const limit = `${folder}/memory.zswap.max`;
let member: Member | null = null;

afterEach(() => {
  member?.close();
  member = null;
  rmSync(folder, { recursive: true, force: true });
});

function table(entries: readonly (readonly [page: number, slot: number])[]): PageTable<Uint32Array> {
  const slots = wordTable();
  for (const [page, slot] of entries) slots.set(page, slot);
  return slots;
}

const entriesOf = (slots: PageTable<Uint32Array>): [number, number][] => {
  const entries: [number, number][] = [];
  slots.forEach((page, slot) => entries.push([page, slot]));
  return entries;
};

/** A pager that was written these slots since the sequence `since`, and is asked for no other. */
const writes = (since: number, written: readonly number[]): Pager =>
  ({
    writtenSince: (sequence: number, slots: Uint32Array) => {
      expect(sequence).toBe(since);
      return Promise.resolve((i: number) => written.includes(slots[i]));
    },
  }) as unknown as Pager;

test('what zswap holds is claimed once it was written to the slot in which a look had shown it, and not before', async () => {
  member = Member.adopt(process.pid) as Member;
  const slots = table([
    [10, 3],
    [11, 4],
    [12, 5],
  ]);
  // Nothing was brought down: the store may have anything in these slots.
  expect(entriesOf(await member.onDevice(writes(0, [3, 4, 5]), slots))).toEqual([]);
  member.comingDown(slots, 100);
  expect(entriesOf(await member.onDevice(writes(100, [3, 5]), slots))).toEqual([
    [10, 3],
    [12, 5],
  ]);
  // Page 12 has moved since: what was written to that slot may be another's.
  const later = table([
    [10, 3],
    [12, 9],
  ]);
  expect(entriesOf(await member.onDevice(writes(100, [3, 9]), later))).toEqual([[10, 3]]);
});

test('what comes down with the pages of another sandbox is claimed by the look before that, until its own come down', async () => {
  member = Member.adopt(process.pid) as Member;
  const slots = table([
    [10, 3],
    [11, 4],
  ]);
  member.comingAlong(slots, 100);
  // A third sandbox's turn changes nothing.
  member.comingAlong(table([[11, 9]]), 150);
  expect(entriesOf(await member.onDevice(writes(100, [4]), slots))).toEqual([[11, 4]]);
  member.comingDown(slots, 200);
  expect(entriesOf(await member.onDevice(writes(200, [3]), slots))).toEqual([[10, 3]]);
});

test('a claim of an earlier window holds for what stays out, and what is written again is claimed again', async () => {
  member = Member.adopt(process.pid) as Member;
  const slots = table([
    [10, 3],
    [11, 4],
  ]);
  member.comingDown(slots, 100);
  for (const [page, slot] of entriesOf(slots)) member.claimed.set(page, slot);
  member.renew('zswap');
  expect(entriesOf(member.claimed)).toEqual([]);
  member.comingDown(slots, 200);
  expect(entriesOf(await member.onDevice(writes(200, [4]), slots))).toEqual([[11, 4]]);
  expect(entriesOf(member.claimed)).toEqual([[10, 3]]);
});

test('what comes down to the very slot that was accepted of it in an earlier window is claimed again', async () => {
  member = Member.adopt(process.pid) as Member;
  const slots = table([
    [10, 3],
    [11, 4],
  ]);
  for (const [page, slot] of entriesOf(slots)) member.claimed.set(page, slot);
  member.renew('zswap');
  // Both go out, to where they were, and no further than zswap: so far the claims hold.
  member.leaving([{ address: 10 * PAGE, length: 2 * PAGE }], 100);
  member.look = { slots } as Look;
  expect(entriesOf(await member.onDevice(writes(0, []), slots))).toEqual([]);
  await member.cachedPages(writes(100, []), 'zswap');
  expect(entriesOf(member.claimed)).toEqual(entriesOf(slots));
  expect(member.comingDown(slots, 200)).toEqual([10, 11]);
  // One was changed in between, and is written.
  const found = await member.onDevice(writes(200, [4]), slots);
  expect(claimable(slots, found, member.claimed, () => true).pages).toEqual([11]);
});

test('direct: a sandbox passes by the zswap of its host while it is registered, and has its limit back afterwards', () => {
  const host = { isOn: () => true, folder: () => folder };
  const sandbox = { spec: { cgroup: 'box' } } as Sandbox;
  const trial = (tier: 'direct' | 'zswap', isOn = true): string => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(limit, '1048576\n');
    const bypass = new ZswapBypass(tier, { ...host, isOn: () => isOn });
    bypass.add(sandbox);
    const during = readFileSync(limit, 'utf8').trim();
    bypass.remove(sandbox);
    bypass.remove(sandbox);
    expect(readFileSync(limit, 'utf8').trim()).toBe('1048576');
    return during;
  };
  expect(trial('direct')).toBe('0');
  expect(trial('direct', false)).toBe('1048576');
  expect(trial('zswap')).toBe('1048576');
  // It has gone with its cgroup.
  const bypass = new ZswapBypass('direct', host);
  bypass.add(sandbox);
  rmSync(folder, { recursive: true });
  expect(() => bypass.remove(sandbox)).not.toThrow();
});
