import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { view } from '../src/native/memory.js';
import { Counter } from '../src/store/volatile.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench } from './support/store.js';

let bench: StoreBench;
afterEach(() => bench.close());

/** A page of each encoding that has bytes in the arena, by slot. */
function storeOneOfEach(): Map<number, number> {
  const random = testRandom('store-corruption');
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 });
  const owner = bench.owner('sandbox', 'tenant/template');
  const compressible = random.bytes(PAGE).fill(7, 0, 3000);
  const alike = compressible.slice();
  for (let at = 3100; at < 3108; at++) alike[at] ^= 0x55;
  const refine = (slot: number, page: Uint8Array) => {
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    expect(bench.refine(slot, owner)).toBe(true);
    bench.commitAll();
  };
  bench.write(0, random.bytes(PAGE));
  refine(1, random.bytes(PAGE));
  refine(2, compressible);
  refine(3, alike);
  return new Map([0, 1, 2, 3].map((slot) => [bench.kind(slot), slot]));
}

test('a flipped bit is never returned as a page', () => {
  const slots = storeOneOfEach();
  expect([...slots.keys()]).toEqual([Kind.STAGED, Kind.RAW, Kind.ZSTD, Kind.DELTA]);
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
