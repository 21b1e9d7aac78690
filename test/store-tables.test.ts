import { afterEach, expect, test } from 'vitest';
import { residentBytes } from '../src/native/memory.js';
import { countStore } from '../src/pager/accounting.js';
import { FreeSet } from '../src/store/free-set.js';
import { layout, LOST, Super, type Section } from '../src/store/layout.js';
import { memoryBytes } from '../src/store/volatile.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

/** Not a multiple of a block: the last one is cut short. */
const SLOTS = 5 * 4096 + 1000;

let bench: StoreBench | undefined;
afterEach(() => {
  bench?.close();
  bench = undefined;
});

test('a free set gives out its lowest number', () => {
  const random = testRandom('store-tables');
  for (const size of [1, 32, 33, 1000, 40_000]) {
    const set = new FreeSet(size);
    const shadow = new Set<number>();
    for (let step = 0; step < 3000; step++) {
      const number = random.below(2) === 0 ? random.below(size) : Math.max(0, set.lowest());
      if (shadow.delete(number)) set.delete(number);
      else set.add(shadow.add(number) && number);
      if (step % 10 === 0) expect(set.lowest()).toBe(shadow.size === 0 ? -1 : Math.min(...shadow));
    }
  }
});

/** Bytes of memory that the columns of slots and objects have. */
function tableBytes({ tables }: StoreBench): number {
  const { sections } = layout(tables.mapping.geometry);
  const columns = (Object.keys(sections) as Section[]).filter((name) => /^(slot|object)/.test(name));
  const held = columns.map((name) =>
    residentBytes(tables.mapping.address + sections[name][0], sections[name][1]),
  );
  return held.reduce((sum, bytes) => sum + bytes, 0);
}

test('tables and indexes that were large once go back to the kernel, and every page that is left is right', () => {
  const random = testRandom('store-tables');
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 512 * 65536 });
  const owner = bench.owner('sandbox', 'domain');
  const page = (slot: number): Uint8Array => {
    const bytes = new Uint8Array(PAGE).fill(slot & 255);
    bytes.set(Uint8Array.of(slot & 255, slot >> 8, slot >> 16, 7), 800);
    return bytes;
  };
  const store = (slot: number): void => {
    bench!.write(slot, page(slot));
    bench!.claim(owner, [slot]);
    bench!.refine(slot, owner);
    bench!.commitAll();
  };
  const empty = tableBytes(bench);
  const index = (): number => memoryBytes(bench!.indexFd);
  for (let slot = 0; slot < SLOTS; slot++) store(slot);
  const full = { tables: tableBytes(bench), index: index() };
  expect(full.tables).toBeGreaterThan(SLOTS * 32);
  // What is left: some of the first two blocks of slots, and one at the very end.
  const left = [...new Set(Array.from({ length: 500 }, () => random.below(2 * 4096))), SLOTS - 1];
  for (let slot = 0; slot < SLOTS; slot++) if (!left.includes(slot)) bench.store.discard(slot, 1);
  while (bench.store.giveBack(64));
  // Three of six blocks of slots have pages; which objects do is of the order in which they were stored.
  expect(tableBytes(bench) - empty).toBeLessThan(0.75 * full.tables);
  // Reading what is empty takes its memory again: a scan passes over it.
  const held = tableBytes(bench);
  expect(countStore(bench.tables).usedSlots).toBe(left.length);
  expect(tableBytes(bench)).toBe(held);
  for (const slot of left) expect(Buffer.compare(bench.read(slot)!, page(slot))).toBe(0);
  bench.store.discard(SLOTS - 1, 1);
  for (const slot of left.splice(0, left.length - 10)) bench.store.discard(slot, 1);
  left.pop();
  while (bench.store.giveBack(64));
  expect(index()).toBeLessThan(0.5 * full.index);
  expect(tableBytes(bench)).toBeLessThan(0.5 * full.tables);
  expect(bench.tables.superblock[Super.HIGH_SLOT]).toBeLessThanOrEqual(2 * 4096);
  bench.restart();
  for (let slot = 4000; slot < 5000; slot++) store(slot);
  for (const slot of [...left, 4000, 4999]) expect(Buffer.compare(bench.read(slot)!, page(slot))).toBe(0);
  bench.store.discard(0, SLOTS);
  bench.restart();
  while (bench.store.giveBack(64));
  expect(bench.tables.superblock[Super.HIGH_OBJECT]).toBe(1);
  expect(bench.tables.superblock[Super.HIGH_SLOT]).toBe(0);
  expect(tableBytes(bench)).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('a slot that was freed here keeps its mark while the kernel has not said that it is free', () => {
  const random = testRandom('store-tables');
  bench = new StoreBench({ slots: 8192, arenaBytes: 64 * 65536 });
  const owner = bench.owner('sandbox', 'domain');
  bench.write(5000, random.bytes(PAGE));
  bench.claim(owner, [5000], undefined, true);
  bench.store.forget(owner, true);
  while (bench.store.giveBack(64));
  expect(bench.tables.slotOwner[5000]).toBe(LOST);
  expect(bench.read(5000)).toBeNull();
  bench.store.discard(5000, 1);
  while (bench.store.giveBack(64));
  expect(bench.tables.superblock[Super.HIGH_SLOT]).toBe(0);
});
