import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { view } from '../src/native/memory.js';
import { Counter } from '../src/store/volatile.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench } from './support/store.js';

let bench: StoreBench;
afterEach(() => bench.close());

/** A page of each encoding that has bytes in the arena, by kind: its slot. */
function storeOneOfEach(): Map<number, number> {
  const random = testRandom('store-corruption');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('sandbox', 'tenant/template');
  const slots = new Map<number, number>();
  const refine = (slot: number, page: Uint8Array, commit = true): Uint8Array => {
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    expect(bench.refine(slot, owner)).toBe(true);
    if (commit) bench.commitAll();
    return page;
  };
  /** Sketches find a similar page most of the time: makes another one until it is stored as it shall be. */
  const store = (kind: number, make: () => Uint8Array): void => {
    const slot = slots.size;
    for (let tries = 0; bench.kind(slot) !== kind; tries++) {
      expect(tries, `kind ${kind} does not turn up`).toBeLessThan(60);
      refine(slot, make(), kind !== Kind.STAGED);
    }
    slots.set(kind, slot);
  };
  const half = (): Uint8Array => random.bytes(PAGE).fill(7, 0, 3000);
  const changed = (page: Uint8Array, at: number, bytes: number): Uint8Array => {
    const copy = page.slice();
    copy.set(random.bytes(bytes), at);
    return copy;
  };
  store(Kind.RAW, () => random.bytes(PAGE));
  store(Kind.ZSTD, half);
  bench.refiner.rushed = true;
  store(Kind.QUICK, half);
  bench.refiner.rushed = false;
  store(Kind.DELTA, () => changed(refine(58, half()), 3104, 300));
  store(Kind.SPARSE, () => changed(refine(59, half()), 3104, 80));
  store(Kind.PAIR, () => {
    const [one, other] = [60, 61].map((slot) => refine(slot, random.bytes(PAGE).fill(9, 0, 3000)));
    const both = changed(one, 2808, 160);
    both.set(other.subarray(3000), 8 * random.below(200));
    return both;
  });
  store(Kind.STAGED, () => random.bytes(PAGE));
  return slots;
}

test('a flipped bit is never returned as a page', () => {
  const slots = storeOneOfEach();
  expect(slots.size).toBe(7);
  const arena = new Uint8Array(view(bench.tables.arenaAddress, 32 * 65536));
  for (const slot of slots.values()) {
    const object = bench.tables.slotObject[slot];
    const start = bench.tables.objectOffset[object] * 16;
    const length = bench.tables.objectLength[object];
    const good = bench.read(slot);
    expect(good).not.toBeNull();
    for (const at of [start, start + (length >> 1), start + length - 1]) {
      for (const bit of [1, 128]) {
        arena[at] ^= bit;
        const page = bench.read(slot);
        // A flip may fall on a bit that does not matter to the decoder; wrong bytes are what must not happen.
        if (page !== null) expect(Buffer.compare(page, good!)).toBe(0);
        arena[at] ^= bit;
      }
    }
    arena[start + (length >> 1)] ^= 0xff;
    expect(bench.read(slot), `kind ${bench.kind(slot)}`).toBeNull();
    arena[start + (length >> 1)] ^= 0xff;
    expect(Buffer.compare(bench.read(slot)!, good!)).toBe(0);
  }
  expect(bench.shared.counters[Counter.CORRUPT]).toBeGreaterThanOrEqual(4);
});

test('a damaged base makes its deltas unreadable, not wrong', () => {
  const slots = storeOneOfEach();
  const delta = bench.tables.slotObject[slots.get(Kind.DELTA)!];
  const base = bench.tables.objectBase[delta];
  const arena = new Uint8Array(view(bench.tables.arenaAddress, 32 * 65536));
  const at = bench.tables.objectOffset[base] * 16 + (bench.tables.objectLength[base] >> 1);
  arena[at] ^= 0xff;
  expect(bench.read(slots.get(Kind.DELTA)!)).toBeNull();
});
