import { totalmem } from 'node:os';
import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { FreeMemory, pagesThere, wantedFree, zonesOf } from '../src/pager/requests/free-memory.js';
import { memoryBytes } from '../src/store/volatile.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench } from './support/store.js';

const MIB = 2 ** 20;
/** One block of the slots' table. */
const SLOTS = 4096;
const HEADROOM = 4 * MIB;
const WRITES = HEADROOM / PAGE - 16;

let bench: StoreBench | undefined;
afterEach(() => {
  bench?.close();
  bench = undefined;
});

/** A store whose slots have been written before, so that what they need is there. */
function makeStore(): StoreBench {
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 64 * MIB });
  for (let slot = 0; slot < SLOTS; slot++) bench.write(slot, new Uint8Array(PAGE).fill(slot & 255));
  return bench;
}

function prepare({ store }: StoreBench): void {
  store.keepHeadroom(HEADROOM);
  while (store.isUnprepared) expect(store.prepare()).toBe(true);
}

/** Writes pages that do not compress; by how many bytes the store's memory grew. */
function writeRaw(bench: StoreBench, random: ReturnType<typeof testRandom>, slots: number[]): number {
  const before = memoryBytes(bench.fd);
  const words = new Uint32Array(PAGE / 4);
  const page = new Uint8Array(words.buffer);
  for (const slot of slots) {
    for (let word = 0; word < words.length; word++) words[word] = random.below(2 ** 32);
    expect(bench.write(slot, page)).toBe(true);
  }
  return memoryBytes(bench.fd) - before;
}

const numbers = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i);

test('with headroom what is written takes no memory from the kernel', () => {
  const random = testRandom('store-headroom');
  const bare = makeStore();
  expect(writeRaw(bare, random, numbers(WRITES))).toBeGreaterThanOrEqual(WRITES * PAGE);
  bare.close();
  const ready = makeStore();
  prepare(ready);
  expect(writeRaw(ready, random, numbers(WRITES))).toBe(0);
});

test('pages are compressed as they come once half of the headroom is used up', () => {
  const ready = makeStore();
  prepare(ready);
  const kindOf = (slot: number): number => ready.tables.objectKind[ready.tables.slotObject[slot]];
  const random = testRandom('store-headroom');
  for (const slot of numbers(1000)) {
    const page = new Uint8Array(PAGE).fill(7);
    page.set(random.bytes(64), 1000);
    expect(ready.write(slot, page)).toBe(true);
  }
  const kinds = numbers(1000).map(kindOf);
  expect(kinds.slice(0, 500)).toEqual(Array(500).fill(Kind.STAGED));
  expect(kinds.slice(600)).toEqual(Array(400).fill(Kind.QUICK));
});

test('objects without a block have their entries before they are made, too', () => {
  const ready = makeStore();
  prepare(ready);
  const before = memoryBytes(ready.fd);
  for (let round = 0; round < 3; round++) {
    // New objects each time, for the old ones go only afterwards.
    for (let slot = 0; slot < 500; slot++) {
      expect(ready.write(slot, new Uint8Array(PAGE).fill(round))).toBe(true);
      if (ready.store.isUnprepared) expect(ready.store.prepare()).toBe(true);
    }
  }
  expect(memoryBytes(ready.fd)).toBe(before);
});

test('blocks whose pages went back to the kernel are passed over while others have memory', () => {
  const random = testRandom('store-headroom');
  const ready = makeStore();
  writeRaw(ready, random, numbers(1024));
  ready.store.discard(0, 1024);
  writeRaw(ready, random, numbers(1024));
  for (const slot of numbers(1024)) if (slot % 16 !== 5) ready.store.discard(slot, 1);
  const punched = memoryBytes(ready.fd);
  ready.keepHouse(4);
  expect(memoryBytes(ready.fd)).toBeLessThan(punched - 900 * PAGE);
  prepare(ready);
  expect(writeRaw(ready, random, numbers(512, 2048))).toBe(0);
});

test('housekeeping leaves the headroom alone, and gives it back when it is not needed any more', () => {
  const random = testRandom('store-headroom');
  const ready = makeStore();
  const house = (): number => {
    ready.keepHouse(4);
    return memoryBytes(ready.fd);
  };
  const atRest = house();
  prepare(ready);
  writeRaw(ready, random, numbers(3000));
  ready.store.discard(0, 3000);
  const kept = house() - atRest;
  expect(kept).toBeGreaterThan(HEADROOM - 65536);
  expect(kept).toBeLessThan(1.25 * HEADROOM);
  expect(ready.store.arena.isUnprepared).toBe(false);
  ready.store.keepHeadroom(0);
  expect(house()).toBeLessThan(atRest + 65536);
});

test('a store that is full has no more headroom, and says so', () => {
  const random = testRandom('store-headroom');
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 2 * MIB });
  writeRaw(bench, random, numbers(300));
  bench.store.keepHeadroom(HEADROOM);
  while (bench.store.prepare());
  expect(bench.store.isUnprepared).toBe(true);
  expect(writeRaw(bench, random, numbers(500 - 300, 300))).toBeLessThan(8 * PAGE);
});

const ZONEINFO = `Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 17
  pages free     3840
        boost    0
        min      15
        low      18
        high     21
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 3018, 16202, 16202, 16202)
      nr_free_pages 3840
  pagesets
    cpu: 0
              count:    0
              high:     13
              high_min: 13
Node 0, zone    DMA32
  pages free     772807
        min      3145
        low      3931
        high     4717
        managed  772807
        protection: (0, 0, 13184, 13184, 13184)
Node 0, zone   Normal
  pages free     2694947
        min      13735
        low      17168
        high     20601
        managed  3375104
        protection: (0, 0, 0, 0, 0)
Node 0, zone  Movable
  pages free     0
        min      32
        low      32
        high     32
        managed  0
        protection: (0, 0, 0, 0, 0)
`;

test('what the kernel wants to have free counts with what zones are protected with, as far as they reach', () => {
  expect(wantedFree(zonesOf(ZONEINFO))).toBe(PAGE * (3840 + 4717 + 13184 + 20601));
});

test('pages are there when one zone has more than it keeps', () => {
  const zones = zonesOf(ZONEINFO);
  expect(zones.map(({ free }) => free)).toEqual([3840, 772807, 2694947, 0]);
  expect(zones[1]).toEqual({ free: 772807, managed: 772807, min: 3145, high: 4717, protection: 13184 });
  const [dma, dma32, normal] = zones;
  // Above what it keeps, and what none but blocks of several pages can be made of.
  expect(pagesThere(zones)).toBeCloseTo(2694947 - 13735 - 512 - 33751.04, 3);
  // The lower zones are full, but kept for others.
  expect(pagesThere([dma, { ...dma32, free: 16_000 }, { ...normal, free: 13_800 }])).toBe(0);
  expect(pagesThere([dma, { ...dma32, free: 16_000 }, { ...normal, free: 60_000 }])).toBeGreaterThan(10_000);
  // The kernel has raised its mark for a time.
  expect(pagesThere([{ ...normal, free: 60_000, min: 40_000 }])).toBe(0);
});

test('what a look has found is given out once', () => {
  const memory = new FreeMemory();
  const until = performance.now() + 100;
  let steps = 0;
  while (performance.now() < until) if (memory.isThere) steps++;
  memory.close();
  // A quarter of what is free at most, a look.
  expect(steps * 64 * PAGE).toBeLessThan(100 * 0.25 * totalmem());
  expect(memory.isLittle || steps > 0).toBe(true);
});
