import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { Super } from '../src/store/layout.js';
import { type Random, testRandom } from './support/seed.js';
import { ENCODING, PAGE, StoreBench, violations } from './support/store.js';

const SLOTS = 256;

/** Without deltas and dictionary: that these pages are compressed by themselves is what matters here. */
const ALONE = { ...ENCODING, delta: false, dictionary: false };

let bench: StoreBench;
afterEach(() => bench.close());

/** Pages that are like no other as a whole, and have words in common with their neighbours. */
function neighbours(random: Random, count: number): Uint8Array[] {
  const words = Array.from({ length: 40 }, () => random.bytes(40));
  return Array.from({ length: count }, () => {
    const page = new Uint8Array(PAGE);
    for (let at = 0; at + 64 < PAGE; at += 64) {
      page.set(words[random.below(words.length)], at + random.below(16));
      page.set(random.bytes(4), at + 58);
    }
    return page;
  });
}

function begin(count = 32): { random: Random; mine: number; pages: Uint8Array[] } {
  const random = testRandom('store-cluster');
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 64 * 65536 }, 1 << 30, ALONE);
  const mine = bench.owner('a', 'one');
  const pages = neighbours(random, count);
  pages.forEach((page, slot) => store(slot, page, mine));
  return { random, mine, pages };
}

function store(slot: number, page: Uint8Array, owner: number): void {
  bench.write(slot, page);
  bench.claim(owner, [slot]);
  bench.refine(slot, owner);
  bench.commitAll();
}

function expectPages(pages: readonly Uint8Array[], from = 0): void {
  pages.forEach((page, i) => expect(Buffer.compare(bench.read(from + i)!, page), `page ${i}`).toBe(0));
  expect(violations(bench)).toEqual([]);
}

const kinds = (count: number): number[] => Array.from({ length: count }, (_, slot) => bench.kind(slot));
const all = (kind: number, count: number): number[] => Array<number>(count).fill(kind);

test('pages that rest take less together, and keep slot, sequence and owner', () => {
  const { mine, pages } = begin();
  const { slotSequence, slotOwner } = bench.tables;
  const [sequences, owners] = [slotSequence.slice(0, 32), slotOwner.slice(0, 32)];
  const before = bench.store.arena.usedBytes;
  bench.cluster(mine);
  expect(kinds(32)).toEqual(all(Kind.MEMBER, 32));
  expect(bench.store.arena.usedBytes).toBeLessThan(0.95 * before);
  expect([slotSequence.slice(0, 32), slotOwner.slice(0, 32)]).toEqual([sequences, owners]);
  expectPages(pages);
});

test('only the owner’s pages are put together, and of these what was not written of late', () => {
  const { random, mine, pages } = begin(8);
  const sibling = bench.owner('b', 'one');
  neighbours(random, 8).forEach((page, i) => store(8 + i, page, sibling));
  const before = bench.tables.superblock[Super.SEQUENCE];
  const fresh = neighbours(random, 8);
  fresh.forEach((page, i) => store(16 + i, page, mine));
  bench.cluster(mine, before);
  expect(kinds(24)).toEqual([...all(Kind.MEMBER, 8), ...all(Kind.ZSTD, 16)]);
  expectPages(pages);
  expectPages(fresh, 16);
});

test('what is to be quick to read is left apart, until it need not be any more', () => {
  const { mine, pages } = begin(16);
  const soon = [0, 1, 2, 3, 8, 10];
  bench.claim(mine, soon, undefined, false, true);
  bench.cluster(mine);
  const apart = (): number[] => pages.map((_, slot) => slot).filter((slot) => bench.kind(slot) === Kind.ZSTD);
  expect(apart()).toEqual(soon);
  expectPages(pages);
  bench.claim(mine, [0, 1, 2, 3]);
  bench.cluster(mine);
  expect(apart()).toEqual([8, 10]);
  expectPages(pages);
});

test('what another page rests on, or shares, is left as it is', () => {
  const { mine, pages } = begin(8);
  store(8, pages[3], mine); // a duplicate
  bench.cluster(mine);
  expect(bench.kind(3)).toBe(Kind.ZSTD);
  expect(kinds(9).filter((kind) => kind === Kind.MEMBER)).toHaveLength(7);
  expectPages([...pages, pages[3]]);
});

test('nothing is put together of which a page was written meanwhile', () => {
  const { random, mine, pages } = begin(8);
  bench.propose(mine);
  const written = random.bytes(PAGE);
  bench.write(5, written);
  bench.commitAll();
  expect(kinds(8).filter((kind) => kind === Kind.MEMBER)).toEqual([]);
  expectPages(pages.map((page, i) => (i === 5 ? written : page)));
});

test('a window that ends stops it', () => {
  const { mine, pages } = begin();
  let asked = 0;
  const at = bench.propose(mine, undefined, 1024, () => asked++ < 2);
  bench.commitAll();
  expect(at).toBe(16);
  expect(kinds(32)).toEqual([...all(Kind.MEMBER, 16), ...all(Kind.ZSTD, 16)]);
  expect(bench.propose(mine, undefined, 8, () => true, at)).toBe(24);
  expectPages(pages);
});

test('pages that take no less together are not tried again until they are written', () => {
  const { random, mine } = begin(0);
  const strangers = Array.from({ length: 8 }, () => random.bytes(PAGE).fill(3, 0, 2000));
  strangers.forEach((page, slot) => store(slot, page, mine));
  let asked = 0;
  const pass = (): number => {
    asked = 0;
    bench.propose(mine, undefined, 64, () => ++asked > 0);
    bench.commitAll();
    return asked;
  };
  expect(pass()).toBe(1);
  expect(kinds(8)).toEqual(all(Kind.ZSTD, 8));
  expect(pass()).toBe(0);
  const pages = neighbours(random, 8);
  pages.forEach((page, slot) => store(slot, page, mine));
  expect(pass()).toBe(1);
  expect(kinds(8)).toEqual(all(Kind.MEMBER, 8));
  expectPages(pages);
});

test('its block goes with its last page; of a few that are left a new one is made', () => {
  const { mine, pages } = begin();
  bench.cluster(mine);
  const full = bench.store.arena.usedBytes;
  // Five of each eight.
  for (let slot = 0; slot < 32; slot++) if (slot % 8 < 5) bench.store.discard(slot, 1);
  expect(bench.store.arena.usedBytes).toBe(full);
  bench.cluster(mine);
  expect(bench.store.arena.usedBytes).toBeLessThan(full / 2);
  for (let slot = 0; slot < 32; slot++) {
    if (slot % 8 >= 5) expect(Buffer.compare(bench.read(slot)!, pages[slot])).toBe(0);
  }
  expect(violations(bench)).toEqual([]);
  bench.store.discard(0, SLOTS);
  expect(bench.store.arena.usedBytes).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('it outlives the process, with a dictionary too, and so does a page that rests on a member alone', () => {
  const random = testRandom('store-cluster');
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 64 * 65536 });
  const mine = bench.owner('a', 'one');
  const sibling = bench.owner('b', 'one');
  const pages = neighbours(random, 16);
  bench.addDictionary(bench.tables.ownerDomains[mine], Buffer.concat(neighbours(random, 4)));
  pages.forEach((page, slot) => store(slot, page, mine));
  bench.cluster(mine);
  expect(kinds(16)).toContain(Kind.MEMBER);
  const member = kinds(16).lastIndexOf(Kind.MEMBER);
  const alike = pages[member].slice();
  alike[2000] ^= 0xff;
  store(100, alike, sibling);
  expect(bench.kind(100)).toBe(Kind.SPARSE);
  expect(bench.tables.objectKind[bench.tables.objectBase[bench.tables.slotObject[100]]]).toBe(Kind.MEMBER);
  for (const step of ['as it is', 'without the member’s slot']) {
    if (step !== 'as it is') bench.store.discard(member, 1);
    bench.restart();
    expect(violations(bench)).toEqual([]);
    expect(Buffer.compare(bench.read(100)!, alike), step).toBe(0);
  }
  pages.forEach((page, i) => i !== member && expect(Buffer.compare(bench.read(i)!, page)).toBe(0));
});

test('a flipped bit in it is never returned as a page', () => {
  const { mine } = begin(8);
  bench.cluster(mine);
  const cluster = bench.tables.objectBase[bench.tables.slotObject[0]];
  const block = bench.tables.addressOf(cluster) - bench.tables.arenaAddress;
  bench.flip(block + Math.floor(bench.tables.objectLength[cluster] / 2));
  const read = Array.from({ length: 8 }, (_, slot) => bench.read(slot));
  expect(read).toContain(null);
});

test('a device that is full of clusters can be written all the same', () => {
  const random = testRandom('store-cluster');
  const slots = 9000;
  bench = new StoreBench({ slots, arenaBytes: 1024 * 65536 }, 1 << 30, ALONE);
  const mine = bench.owner('a', 'one');
  neighbours(random, slots).forEach((page, slot) => store(slot, page, mine));
  bench.cluster(mine);
  // More clusters than the table has room for beyond an object a slot and a few.
  expect(kinds(slots).filter((kind) => kind === Kind.MEMBER).length).toBeGreaterThan(8 * 1024);
  const fresh = random.bytes(PAGE);
  for (let slot = 0; slot < slots; slot += 10) expect(bench.write(slot, fresh)).toBe(true);
  expect(violations(bench)).toEqual([]);
});
