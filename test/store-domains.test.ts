import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { SOLE, Super } from '../src/store/layout.js';
import { Random, testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

/** More pages than the arena has room for. */
const SLOTS = 1024;

let bench: StoreBench;
afterEach(() => bench.close());

const compressible = (random: Random): Uint8Array => random.bytes(PAGE).fill(9, 0, 2500);

function store(slot: number, page: Uint8Array, owner: number): void {
  bench.write(slot, page);
  bench.claim(owner, [slot]);
  bench.refine(slot, owner);
  bench.commitAll();
}

/** A fresh store with two sandboxes of one domain and one of another. */
function family(): [mine: number, sibling: number, stranger: number] {
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 32 * 65536 });
  return [bench.owner('a', 'one'), bench.owner('b', 'one'), bench.owner('c', 'two')];
}

test('equal pages share an object inside a domain and never across domains', () => {
  const random = testRandom('store-domains');
  const [mine, sibling, stranger] = family();
  const page = compressible(random);
  store(0, page, mine);
  store(1, page, sibling);
  store(2, page, stranger);
  const { slotObject } = bench.tables;
  expect(slotObject[1]).toBe(slotObject[0]);
  expect(slotObject[2]).not.toBe(slotObject[0]);
  expect(violations(bench)).toEqual([]);
});

test('a similar page is a base inside a domain and never across domains', () => {
  const random = testRandom('store-domains');
  const [mine, sibling, stranger] = family();
  const page = compressible(random);
  const alike = page.slice();
  for (let at = 3000; at < 3016; at++) alike[at] ^= 0x33;
  store(0, page, mine);
  store(1, alike, sibling);
  store(2, alike, stranger);
  expect(bench.kind(1)).toBe(Kind.SPARSE);
  expect(bench.kind(2)).toBe(Kind.ZSTD);
});

test('a page that no sandbox claimed is shared with nothing', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('a', 'one');
  const page = compressible(random);
  store(0, page, owner);
  bench.write(1, page);
  expect(bench.refine(1, 0)).toBe(true);
  bench.commitAll();
  expect(bench.kind(1)).toBe(Kind.STAGED);
  expect(bench.tables.slotObject[1]).not.toBe(bench.tables.slotObject[0]);
});

test('a claim older than the last write of its slot is refused', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('a', 'one');
  bench.write(0, compressible(random));
  bench.write(1, compressible(random));
  const sequence = bench.tables.superblock[Super.SEQUENCE];
  bench.write(1, compressible(random)); // by now perhaps another sandbox's page
  expect([...bench.claim(owner, [0, 1, 2, 64], sequence).stale]).toEqual([1, 3]); // of 2 there is nothing to claim; 64 is no slot
  expect([...bench.tables.slotOwner.slice(0, 3)]).toEqual([owner, 0, 0]);
});

test('of what a slot has from before the page went nothing is claimed: the page was of zeros', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const [first, second] = [bench.owner('a', 'one'), bench.owner('b', 'two')];
  const sequenceNow = (): number => bench.tables.superblock[Super.SEQUENCE];
  bench.write(0, compressible(random)); // somebody's, who never claimed it
  bench.write(1, compressible(random));
  bench.claim(second, [1]);
  const since = sequenceNow();
  bench.write(2, compressible(random));
  const claimed = bench.store.claim(second, sequenceNow(), Uint32Array.from([0, 1, 2]), since);
  expect([[...claimed.staged], [...claimed.stale]]).toEqual([[2], []]);
  expect([...bench.tables.slotOwner.slice(0, 3)]).toEqual([0, second, second | SOLE]);
  // Not known when it went: it may have been out for long.
  bench.claim(first, [0]);
  expect(bench.tables.slotOwner[0]).toBe(first);
});

test('the write sequence may wrap', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('a', 'one');
  bench.tables.superblock[Super.SEQUENCE] = 0xfffffffe;
  bench.write(0, compressible(random));
  bench.write(1, compressible(random)); // sequence 0
  const sequence = bench.tables.superblock[Super.SEQUENCE];
  expect(sequence).toBe(0);
  expect([...bench.claim(owner, [0, 1], sequence).stale]).toEqual([]);
  bench.write(1, compressible(random));
  expect([...bench.claim(owner, [1], 0xffffffff).stale]).toEqual([0]);
});

test('a slot of one owner can not be claimed by another before the first is forgotten', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const [first, second] = [bench.owner('a', 'one'), bench.owner('b', 'two')];
  bench.write(0, compressible(random));
  bench.claim(first, [0]);
  expect([...bench.claim(second, [0]).stale]).toEqual([0]);
  bench.store.forget(first, false);
  expect([...bench.claim(second, [0]).stale]).toEqual([]);
});

test('a page shared in one domain can not be taken over into another', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const [first, second] = [bench.owner('a', 'one'), bench.owner('b', 'two')];
  store(0, compressible(random), first);
  bench.store.forget(first, false);
  expect([...bench.claim(second, [0]).stale]).toEqual([0]);
  expect(violations(bench)).toEqual([]);
});

test('a result is dropped when its page, its duplicate or its base has changed meanwhile', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('a', 'one');
  const page = compressible(random);
  const alike = page.slice();
  for (let at = 3000; at < 3008; at++) alike[at] ^= 0x33;
  const other = compressible(random);

  // The page itself was overwritten.
  bench.write(0, page);
  bench.claim(owner, [0]);
  bench.refine(0, owner);
  bench.write(0, other);
  bench.commitAll();
  expect(bench.kind(0)).toBe(Kind.STAGED);
  expect(Buffer.compare(bench.read(0)!, other)).toBe(0);

  // The base went, and its number now means another page.
  store(1, page, owner);
  bench.write(2, alike);
  bench.claim(owner, [2]);
  bench.refine(2, owner);
  bench.store.discard(1, 1);
  store(3, other, owner);
  bench.commitAll();
  expect(Buffer.compare(bench.read(2)!, alike)).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('recovery keeps owners, domains and the claims rule', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('sandbox-ü', 'tenant/template');
  const page = compressible(random);
  store(0, page, owner);
  bench.restart();
  expect(bench.tables.owners.find('sandbox-ü')).toBe(owner);
  expect(bench.tables.domains.name(bench.tables.ownerDomains[owner])).toBe('tenant/template');
  store(1, page, owner);
  expect(bench.tables.slotObject[1]).toBe(bench.tables.slotObject[0]);
});

test('an owner that ended frees what was its alone, unless it was written since; what may be shared stays', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('a', 'one');
  const pages = [0, 1, 2].map(() => compressible(random));
  pages.forEach((page, slot) => bench.write(slot, page));
  bench.claim(owner, [0, 1], undefined, true);
  bench.claim(owner, [2], undefined, false);
  const another = compressible(random);
  bench.write(1, another); // the kernel has given the slot to somebody else
  bench.store.forget(owner, true);
  expect(bench.tables.slotObject[0]).toBe(0);
  expect(Buffer.compare(bench.read(1)!, another)).toBe(0);
  expect(Buffer.compare(bench.read(2)!, pages[2])).toBe(0);
});

test('an owner that is only forgotten keeps every page readable', () => {
  const random = testRandom('store-domains');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('a', 'one');
  const page = compressible(random);
  bench.write(0, page);
  bench.claim(owner, [0], undefined, true);
  bench.store.forget(owner, false);
  expect(Buffer.compare(bench.read(0)!, page)).toBe(0);
});

test('a page that is refused leaves nothing in its slot of whoever had it before', () => {
  const random = testRandom('store-domains');
  const [mine, , stranger] = family();
  store(0, compressible(random), mine);
  bench.store.forget(mine, false);
  for (let slot = 1; bench.write(slot, random.bytes(PAGE)); slot++) expect(slot).toBeLessThan(SLOTS);
  expect(bench.write(0, random.bytes(PAGE))).toBe(false);
  bench.claim(stranger, [0]);
  expect(bench.tables.slotOwner[0]).toBe(0);
  expect(bench.read(0)).toEqual(new Uint8Array(PAGE));
  expect(violations(bench)).toEqual([]);
});
