import { afterEach, expect, test } from 'vitest';
import { Super } from '../src/store/layout.js';
import { StoreBench, violations } from './support/store.js';
import { testRandom } from './support/seed.js';

const SLOTS = 64;
let bench: StoreBench;
afterEach(() => bench.close());

/** Slots 0 to 3 with a page each, claimed as the owner's alone. */
function family(): { owner: number; pages: Uint8Array[]; slots: Uint32Array } {
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 32 * 65536 });
  const random = testRandom('store-garbage');
  const owner = bench.owner('a', 'one');
  const pages = [0, 1, 2, 3].map(() => random.bytes(4096));
  pages.forEach((page, slot) => bench.write(slot, page));
  bench.claim(owner, [0, 1, 2, 3], undefined, true);
  return { owner, pages, slots: Uint32Array.from([0, 1, 2, 3]) };
}

test('what was neither read nor written since it was watched is freed, and nothing else', () => {
  const { owner, pages, slots } = family();
  const sequence = bench.store.watch(owner, slots);
  bench.read(1);
  bench.write(2, pages[0]);
  expect(bench.store.free(owner, sequence, slots)).toBe(2);
  expect(bench.read(1)).toEqual(pages[1]);
  expect(bench.read(2)).toEqual(pages[0]);
  expect(violations(bench)).toEqual([]);
});

test('what is not the owner’s alone is never freed', () => {
  const { owner, pages, slots } = family();
  const stranger = bench.owner('b', 'two');
  bench.write(4, pages[1]);
  bench.claim(stranger, [4], undefined, true);
  bench.write(5, pages[2]);
  bench.claim(owner, [5]);
  const all = Uint32Array.from([4, 5, 6, SLOTS, 0xffffffff]);
  expect(bench.store.free(owner, bench.store.watch(owner, all), all)).toBe(0);
  bench.store.doubtSole();
  expect(bench.store.free(owner, bench.store.watch(owner, slots), slots)).toBe(0);
  expect(bench.read(4)).toEqual(pages[1]);
});

test('pages written before the owner was seen alone with them are not its alone', () => {
  const { owner, pages } = family();
  bench.write(6, pages[0]);
  const since = bench.tables.superblock[Super.SEQUENCE];
  bench.write(7, pages[1]);
  const slots = Uint32Array.from([6, 7]);
  bench.store.claim(owner, bench.tables.superblock[Super.SEQUENCE], slots, since);
  expect(bench.store.free(owner, bench.store.watch(owner, slots), slots)).toBe(1);
  expect(bench.read(6)).toEqual(pages[0]);
});

test('a page that is asked for after it was freed is an error, never zeros; a new one is a page again', () => {
  const { owner, pages, slots } = family();
  bench.store.free(owner, bench.store.watch(owner, slots), slots);
  expect(bench.read(0)).toBeNull();
  bench.restart();
  expect(bench.read(0)).toBeNull();
  bench.write(0, pages[3]);
  expect(bench.read(0)).toEqual(pages[3]);
  bench.store.discard(1, 1);
  expect(bench.read(1)).toEqual(new Uint8Array(4096));
});
