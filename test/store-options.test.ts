import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { PAGE, StoreBench, ENCODING } from './support/store.js';
import { testRandom } from './support/seed.js';

const random = testRandom('store-options');
const bench = new StoreBench({ slots: 64, arenaBytes: 4 << 20 });
afterEach(() => bench.close());

test('a refiner stores each batch by what its owner may have', () => {
  const owner = bench.owner('one', 'd');
  const page = Uint8Array.from({ length: PAGE }, () => random.below(256));
  const near = page.slice();
  near[100] ^= 1;
  const store = (slot: number, bytes: Uint8Array): number => {
    bench.write(slot, bytes);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner);
    bench.commitAll();
    expect(bench.read(slot)).toEqual(bytes);
    return bench.kind(slot);
  };
  expect(store(1, page)).toBe(Kind.RAW);
  bench.refiner.options = { ...ENCODING, delta: false, duplicates: false };
  expect(store(2, near)).toBe(Kind.RAW);
  const objects = new Set(
    [1, 3].map((slot) => (slot === 3 ? void store(3, page) : 0, bench.tables.slotObject[slot])),
  );
  expect(objects.size).toBe(2);
  bench.refiner.options = ENCODING;
  expect(store(4, near.slice())).not.toBe(Kind.STAGED);
  expect(
    [2, 4].map((slot) => bench.tables.slotObject[slot]).every((object, _, [first]) => object === first),
  ).toBe(true);
  near[200] ^= 1;
  expect([Kind.SPARSE, Kind.DELTA]).toContain(store(5, near));
  // Half incompressible: 0.5 keeps it raw, 0.9 does not.
  const half = page.slice().fill(7, 0, PAGE / 2 - 300);
  half.set(
    Uint8Array.from({ length: PAGE / 2 + 300 }, () => random.below(256)),
    PAGE / 2 - 300,
  );
  bench.refiner.options = { ...ENCODING, cutoff: 0.5 };
  expect(store(6, half)).toBe(Kind.RAW);
  bench.refiner.options = ENCODING;
  half[0] ^= 1;
  expect(store(7, half)).not.toBe(Kind.RAW);
});
