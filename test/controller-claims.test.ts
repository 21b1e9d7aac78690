import { expect, test } from 'vitest';
import { claimable, claimPages, templatePagesOf, unclaimed } from '../src/controller/claims/claims.js';
import { SlotOwners } from '../src/controller/claims/slot-owners.js';
import type { Context } from '../src/controller/context.js';
import { Usage } from '../src/controller/prefetch/usage.js';
import type { Member } from '../src/controller/sandboxes/member.js';
import type { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import type { Look } from '../src/memory/look.js';
import { wordTable, type PageTable } from '../src/memory/page-table.js';
import { parseVmas } from '../src/memory/vmas.js';
import { type Claim, NO_TEMPLATE_PAGE } from '../src/pager/protocol.js';

function slots(entries: Record<number, number>): PageTable<Uint32Array> {
  const table = wordTable();
  for (const [page, slot] of Object.entries(entries)) table.set(Number(page), slot);
  return table;
}
const takeAll = (): boolean => true;

test('a page is claimed when both looks show the same slot', () => {
  const first = slots({ 1: 10, 2: 20, 3: 30, 4: 40 });
  const second = slots({ 1: 10, 2: 21, 4: 40, 5: 50 });
  // 2 was written elsewhere meanwhile, 3 has come back, 5 went out after the sequence was read.
  expect(claimable(first, second, wordTable(), takeAll)).toEqual({ pages: [1, 4], slots: [10, 40] });
});

test('what was claimed in this window is not sent again, unless its slot has changed', () => {
  const now = slots({ 1: 10, 2: 20 });
  expect(claimable(now, now, slots({ 1: 10, 2: 19 }), takeAll)).toEqual({ pages: [2], slots: [20] });
  expect(unclaimed(now, slots({ 1: 10, 2: 19 }))).toBe(1);
});

test('a slot that is another sandbox’s is left alone for the rest of the window', () => {
  const now = slots({ 1: 10, 2: 20 });
  const claimed = wordTable();
  expect(claimable(now, now, claimed, (slot) => slot !== 10)).toEqual({ pages: [2], slots: [20] });
  expect(claimed.get(1)).toBe(10);
});

test('a slot both sandboxes show stays with the first', () => {
  const owners = new SlotOwners(100);
  expect(owners.take(5, 1, 9, () => expect.unreachable())).toBe(true);
  expect(owners.take(5, 1, 9, () => expect.unreachable())).toBe(true);
  expect(owners.take(5, 2, 9, (other, slot) => other === 1 && slot === 5)).toBe(false);
});

test('a slot the first no longer shows goes to the second', () => {
  const owners = new SlotOwners(100);
  owners.take(5, 1, 9, takeAll);
  expect(owners.take(5, 2, 9, () => false)).toBe(true);
  expect(owners.take(5, 1, 9, (other) => other === 2)).toBe(false);
});

test('the slots of a sandbox that is gone are free', () => {
  const owners = new SlotOwners(100);
  owners.take(5, 1, 9, takeAll);
  owners.forget(1);
  expect(owners.take(5, 2, 9, () => expect.unreachable())).toBe(true);
});

test('the header and what lies outside the device are never claimed', () => {
  const owners = new SlotOwners(100);
  expect(owners.take(0, 1, 9, takeAll)).toBe(false);
  expect(owners.take(100, 1, 9, takeAll)).toBe(false);
});

test('each page is mapped within the mapping that holds it', () => {
  const vmas = parseVmas(
    '1000-3000 rw-p 00000000 00:00 0 \n5000-6000 rw-p 00000000 00:00 0 [heap]\n9000-a000 rw-p 00000000 00:00 0 ',
  );
  const look = { vmas } as Look;
  const map = (vma: { key: string }, page: number): number => (vma.key === 'heap:[heap]:0' ? 100 : 0) + page;
  expect([...templatePagesOf(look, [1, 2, 5, 9], map)]).toEqual([1, 2, 105, 9]);
  expect([...templatePagesOf(look, [1, 5], null)]).toEqual([NO_TEMPLATE_PAGE, NO_TEMPLATE_PAGE]);
});

interface Told {
  apart: boolean | undefined;
  soleSince: number | null;
  slots: number[];
}

/** Claims pages 1 to 4 in slots 10 to 40, of a pager that refuses some. What it was told, and the pages it took. */
async function claimFour(member: object, refused: number[]): Promise<{ told: Told[]; accepted: number[] }> {
  const told: Told[] = [];
  const claim = async ({ apart, soleSince, slots }: Claim) => {
    told.push({ apart, soleSince, slots: [...slots] });
    return { stale: [...slots.keys()].filter((at) => refused.includes(slots[at])) };
  };
  const context = { templates: { baseFor: () => null }, pager: { claim } };
  const pages = [1, 2, 3, 4];
  const accepted: number[] = [];
  const sandbox = { id: 'a', domain: 'd' } as Sandbox;
  await claimPages(
    context as unknown as Context,
    sandbox,
    member as Member,
    {} as Look,
    { pages, slots: [10, 20, 30, 40], sequence: 9 },
    new AbortController().signal,
    (i) => void accepted.push(pages[i]),
  );
  return { told, accepted: accepted.sort() };
}

test('pages that a tool phase of late has used are to be kept quick to read', async () => {
  const usage = new Usage();
  // 1 was used in the last phase, 2 in the one before, 3 five phases earlier, 4 never.
  for (const phase of [[3], [], [], [], [2], [1]])
    usage.endPhase([1, 2, 3, 4], (page) => phase.includes(page));
  const member = { usage, soleSince: 7, wasSole: (page: number) => page % 2 === 1 };
  const { told, accepted } = await claimFour(member, []);
  expect(told).toEqual([
    { apart: false, soleSince: 7, slots: [30] },
    { apart: true, soleSince: 7, slots: [10] },
    { apart: false, soleSince: null, slots: [40] },
    { apart: true, soleSince: null, slots: [20] },
  ]);
  expect(accepted).toEqual([1, 2, 3, 4]);
});

test('a page that is refused holds back no other of its batch', async () => {
  const { told, accepted } = await claimFour({ usage: new Usage(), wasSole: () => false }, [20, 30]);
  expect(told.map(({ slots }) => slots)).toEqual([[10, 20, 30, 40]]);
  expect(accepted).toEqual([1, 4]);
});
