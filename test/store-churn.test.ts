import { afterEach, expect, test } from 'vitest';
import { residentBytes } from '../src/native/memory.js';
import { Super } from '../src/store/layout.js';
import { memoryBytes } from '../src/store/volatile.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

const SLOTS = 16_384;
/** Of a day: one each two minutes, with what is written again in each. */
const WINDOWS = 720;
const WINDOW_SLOTS = 64;

let bench: StoreBench;
afterEach(() => bench.close());

test('after much churn, and little left, most memory is back with the kernel and every page is right', () => {
  const random = testRandom('store-churn');
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 1024 * 65536 });
  const owner = bench.owner('sandbox', 'domain');
  const start = memoryBytes(bench.fd);
  const pages = new Map<number, Uint8Array>();
  for (let slot = 0; slot < SLOTS; slot++) {
    // Sizes of all classes: more or less of the page is incompressible.
    const page = new Uint8Array(PAGE).fill(slot & 255);
    page.set(random.bytes(32 + random.below(PAGE - 64)), 16);
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner);
    bench.commitAll();
    pages.set(slot, page);
  }
  const full = memoryBytes(bench.fd);
  for (let slot = 0; slot < SLOTS; slot++) {
    if (random.below(10) === 0) continue;
    bench.store.discard(slot, 1);
    pages.delete(slot);
  }
  for (let round = 0; round < 200; round++) {
    bench.store.objects.compact(4000);
    bench.store.arena.trim(8, 64);
  }
  const left = memoryBytes(bench.fd) - start;
  expect(full - start).toBeGreaterThan(20 << 20);
  // One page in ten is left. Tables stay, and a page or two for each class.
  expect(left).toBeLessThan(bench.store.arena.usedBytes * 1.1 + (2 << 20));
  for (const [slot, page] of pages) expect(Buffer.compare(bench.read(slot)!, page)).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('after a day of windows less than a fifteenth of the arena is lost to blocks that are not there', () => {
  const random = testRandom('store-churn');
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 1024 * 65536 });
  const owner = bench.owner('sandbox', 'domain');
  const noise = random.bytes(4 * PAGE);
  const write = (slot: number): void => {
    // Sizes as they are met: most small, some large; the noise at another place each time, so that none is a delta.
    const bytes = 32 + random.below(random.below(2) === 0 ? 600 : 3000);
    const from = random.below(noise.length - bytes);
    const page = new Uint8Array(PAGE).fill(random.below(256));
    page.set(noise.subarray(from, from + bytes), 8 * random.below(64));
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner);
    bench.commitAll();
  };
  for (let slot = 0; slot < SLOTS; slot++) write(slot);
  for (let window = 0; window < WINDOWS; window++) {
    const from = random.below(SLOTS);
    for (let i = 0; i < WINDOW_SLOTS; i++) write((from + random.below(2 * WINDOW_SLOTS)) % SLOTS);
    bench.cluster(owner, bench.tables.superblock[Super.SEQUENCE] - 4 * WINDOW_SLOTS);
    for (let round = 0; round < 4; round++) {
      bench.store.objects.compact(4000);
      bench.store.arena.trim(8, 64);
    }
  }
  const { arenaAddress, mapping } = bench.tables;
  const held = residentBytes(arenaAddress, mapping.geometry.arenaBytes);
  expect(1 - bench.store.arena.usedBytes / held).toBeLessThan(1 / 15);
  expect(violations(bench)).toEqual([]);
});
