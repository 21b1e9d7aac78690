import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isCluster, Kind } from '../src/codec/kinds.js';
import { depthOf } from '../src/store/chains.js';
import { FORMAT_VERSION, Super } from '../src/store/layout.js';
import { writePack } from '../src/store/pack.js';
import { objectBases, templateBases } from '../src/store/references.js';
import { type Random, testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

/** Pages that others rest on: of a sibling in slots from BASES_AT, or of a template. */
const COUNT = 32;
const BASES_AT = 100;
/** Pages that come together at least, whatever the seed: those that others rest on do not. */
const ENOUGH = 8;

let bench: StoreBench;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-based-cluster-`);
  bench = new StoreBench({ slots: 256, arenaBytes: 64 * 65536 });
});
afterEach(() => {
  bench.close();
  rmSync(folder, { recursive: true });
});

const basePages = (random: Random): Uint8Array[] =>
  Array.from({ length: COUNT }, () => random.bytes(PAGE).fill(7, 0, 2500));

/** Of each page one with the same news in it, which is nothing that any of them knows. */
function withNews(random: Random, pages: readonly Uint8Array[]): Uint8Array[] {
  const news = random.bytes(400);
  return pages.map((page) => {
    const copy = page.slice();
    copy.set(news, 8 * random.below(250));
    return copy;
  });
}

function store(
  slot: number,
  page: Uint8Array,
  owner: number,
  pack = 0,
  templatePage?: number,
  refiner = bench.refiner,
): void {
  bench.write(slot, page);
  bench.claim(owner, [slot]);
  bench.refine(slot, owner, pack, templatePage, refiner);
  bench.commitAll();
}

const objectOf = (slot: number): number => bench.tables.slotObject[slot];
const clusterOf = (slot: number): number => bench.tables.objectBase[objectOf(slot)];
const clustered = (): number[] =>
  Array.from({ length: COUNT }, (_, slot) => slot).filter(
    (slot) =>
      bench.kind(slot) === Kind.MEMBER && bench.tables.objectKind[clusterOf(slot)] === Kind.BASED_CLUSTER,
  );

function expectPages(pages: readonly Uint8Array[], from = 0): void {
  pages.forEach((page, i) => expect(Buffer.compare(bench.read(from + i)!, page), `page ${from + i}`).toBe(0));
  expect(violations(bench)).toEqual([]);
}

/** Pages that no slot has any more: only others rest on them. */
function withoutSlot(): number {
  const { objectUse, superblock, objectKind, slotObject } = bench.tables;
  let count = 0;
  for (let at = objectUse.next(0); at < superblock[Super.HIGH_OBJECT]; at = objectUse.next(at + 1)) {
    const isPage = objectKind[at] !== Kind.FREE && !isCluster(objectKind[at]);
    if (isPage && !slotObject.includes(at)) count++;
  }
  return count;
}

/** Pages of one sandbox that rest on those of its sibling. */
function overSibling(random: Random): {
  mine: number;
  sibling: number;
  bases: Uint8Array[];
  pages: Uint8Array[];
} {
  const [mine, sibling] = ['a', 'b'].map((name) => bench.owner(name, 'one'));
  const bases = basePages(random);
  bases.forEach((page, i) => store(BASES_AT + i, page, sibling));
  const pages = withNews(random, bases);
  pages.forEach((page, slot) => store(slot, page, mine));
  return { mine, sibling, bases, pages };
}

/** Pages of a sandbox that rest on its template's, and on nothing else. */
async function overTemplate(random: Random): Promise<{ mine: number; pack: number; pages: Uint8Array[] }> {
  const bases = basePages(random);
  const path = `${folder}/t.pack`;
  const regions = [{ key: 'heap', start: 0x1000, pages: COUNT }];
  const input = bases.map((bytes, templatePage) => ({ templatePage, bytes }));
  await writePack(path, regions, input, { id: 't', tenant: null, public: true });
  const pack = bench.loadPack(path);
  const mine = bench.owner('a', 'one');
  const pages = withNews(random, bases);
  const refiner = bench.refinerWith({ siblings: false });
  pages.forEach((page, slot) => store(slot, page, mine, pack, slot, refiner));
  return { mine, pack, pages };
}

test('pages that rest on others take less together, and nothing may rest on them', () => {
  const { mine, bases, pages } = overSibling(testRandom('store-based-cluster'));
  const before = bench.store.arena.usedBytes;
  bench.cluster(mine);
  const members = clustered();
  expect(members.length).toBeGreaterThan(ENOUGH);
  expect(bench.store.arena.usedBytes).toBeLessThan(before);
  for (const slot of members) {
    expect(objectBases(bench.tables, clusterOf(slot))).toBeGreaterThan(0);
    expect(depthOf(bench.tables, objectOf(slot))).toBe(1);
    expect(bench.store.objects.isBase(objectOf(slot))).toBe(false);
  }
  expectPages(pages);
  expectPages(bases, BASES_AT);
});

test('its bases outlive their slots and the process, and go with its last page', () => {
  const { mine, pages } = overSibling(testRandom('store-based-cluster'));
  bench.cluster(mine);
  bench.store.discard(BASES_AT, COUNT);
  expectPages(pages);
  bench.restart();
  expectPages(pages);
  for (let left = COUNT; left > 0; left--) {
    expect(bench.store.arena.usedBytes).toBeGreaterThan(0);
    bench.store.discard(left - 1, 1);
    expect(violations(bench)).toEqual([]);
    expectPages(pages.slice(0, left - 1));
  }
  expect(bench.store.arena.usedBytes).toBe(0);
});

test('pages whose bases are kept for them alone are put together without these, which go', () => {
  const random = testRandom('store-based-cluster');
  const [mine, sibling] = ['a', 'b'].map((name) => bench.owner(name, 'one'));
  const bases = basePages(random);
  bases.forEach((page, i) => store(BASES_AT + i, page, sibling));
  // Much of what is in the bases is in none of the pages.
  const news = random.bytes(400);
  const pages = bases.map((page) => {
    const copy = page.slice();
    copy.set(news, 2504 + 8 * random.below(100));
    return copy;
  });
  pages.forEach((page, slot) => store(slot, page, mine));
  bench.store.discard(BASES_AT, COUNT);
  const before = bench.store.arena.usedBytes;
  const kept = withoutSlot();
  expect(kept).toBeGreaterThan(0);
  bench.cluster(mine);
  expect(withoutSlot()).toBeLessThanOrEqual(kept / 2);
  expect(bench.store.arena.usedBytes).toBeLessThan(before * 0.9);
  expectPages(pages);
});

test('of what is left of some new ones are made', () => {
  const { mine, pages } = overSibling(testRandom('store-based-cluster'));
  bench.cluster(mine);
  const full = bench.store.arena.usedBytes;
  for (let slot = 0; slot < COUNT; slot++) if (slot % 4 < 2) bench.store.discard(slot, 1);
  bench.cluster(mine);
  expect(bench.store.arena.usedBytes).toBeLessThan(full);
  for (let slot = 0; slot < COUNT; slot++)
    if (slot % 4 >= 2) expect(Buffer.compare(bench.read(slot)!, pages[slot])).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('one that rests on a template alone may be rested on, and the template stays in use', async () => {
  const random = testRandom('store-based-cluster');
  const { mine, pack, pages } = await overTemplate(random);
  bench.cluster(mine);
  const members = clustered();
  expect(members.length).toBeGreaterThan(ENOUGH);
  expect(templateBases(bench.tables, clusterOf(members[0]))).toBeGreaterThan(0);
  for (const slot of members) expect(bench.store.objects.isBase(objectOf(slot))).toBe(true);
  expectPages(pages);
  // A second sandbox, without the template: its pages rest on members, and are put together themselves.
  const sibling = bench.owner('b', 'one');
  const alike = withNews(random, pages);
  alike.forEach((page, i) => store(BASES_AT + i, page, sibling));
  bench.cluster(sibling);
  const onMembers = alike
    .map((_, i) => clusterOf(BASES_AT + i))
    .filter((cluster) => bench.tables.objectKind[cluster] === Kind.BASED_CLUSTER);
  expect(onMembers.length).toBeGreaterThan(ENOUGH);
  for (const step of ['as it is', 'after a restart', 'without what they rest on', 'and a restart']) {
    if (step.endsWith('restart')) bench.restart();
    if (step.startsWith('without')) bench.store.discard(0, COUNT);
    if (step !== 'as it is') expect(bench.store.objects.packUses[pack], step).toBeGreaterThan(0);
    expectPages(alike, BASES_AT);
  }
  bench.store.discard(0, 256);
  expect(bench.store.objects.packUses[pack]).toBe(0);
  expect(bench.store.arena.usedBytes).toBe(0);
});

test('it is not made when a base is another page by then', () => {
  const random = testRandom('store-based-cluster');
  const { mine, pages } = overSibling(random);
  bench.propose(mine);
  const { slotObject, objectHashLow } = bench.tables;
  // As if the object had been freed, and its number given to another page.
  const bases = Array.from({ length: COUNT }, (_, i) => slotObject[BASES_AT + i]);
  for (const base of bases) objectHashLow[base] ^= 1;
  bench.commitAll();
  for (const base of bases) objectHashLow[base] ^= 1;
  expect(clustered()).toEqual([]);
  expectPages(pages);
});

test('a domain’s pages are never put together over another’s', () => {
  const random = testRandom('store-based-cluster');
  const { mine, bases, pages } = overSibling(random);
  const stranger = bench.owner('c', 'two');
  bases.forEach((page, i) => store(200 + i, page, stranger));
  bench.propose(mine);
  const { slotObject, objectDomain, ownerDomains } = bench.tables;
  // As if the number of a base had gone to an equal page of the other domain.
  for (let i = 0; i < COUNT; i++) objectDomain[slotObject[BASES_AT + i]] = ownerDomains[stranger];
  bench.commitAll();
  for (let i = 0; i < COUNT; i++) objectDomain[slotObject[BASES_AT + i]] = ownerDomains[mine];
  expect(clustered()).toEqual([]);
  bench.cluster(mine);
  bench.cluster(stranger);
  expect(clustered()).not.toEqual([]);
  expectPages(pages);
});

test('a flipped bit in it, or in what it rests on, is never returned as a page', () => {
  const { mine, pages } = overSibling(testRandom('store-based-cluster'));
  bench.cluster(mine);
  const { tables } = bench;
  const members = clustered();
  const victims = [clusterOf(members[0]), tables.slotObject[BASES_AT + members.at(-1)!]];
  for (const victim of victims) {
    const block = tables.addressOf(victim) - tables.arenaAddress;
    for (let at = 0; at < tables.objectLength[victim]; at += 3) {
      bench.flip(block + at);
      for (const [slot, page] of pages.entries()) {
        const read = bench.read(slot);
        if (read !== null) expect(Buffer.compare(read, page)).toBe(0);
      }
      bench.flip(block + at);
    }
  }
  expectPages(pages);
});

test('a store of the format before is refused', () => {
  bench.tables.superblock[Super.VERSION] = FORMAT_VERSION - 1;
  expect(() => bench.restart()).toThrow(
    `its format is ${FORMAT_VERSION - 1}, this version reads ${FORMAT_VERSION}`,
  );
  bench.tables.superblock[Super.VERSION] = FORMAT_VERSION;
});
