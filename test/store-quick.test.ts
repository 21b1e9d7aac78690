import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { Super } from '../src/store/layout.js';
import { Counter } from '../src/store/volatile.js';
import { type Random, testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

let bench: StoreBench;
afterEach(() => bench.close());

const compressible = (random: Random): Uint8Array => random.bytes(PAGE).fill(9, 0, 2500);

/** Pages of an owner that a worker in a rush has looked at. */
function rush(pages: readonly Uint8Array[], owner: number): void {
  bench.refiner.rushed = true;
  pages.forEach((page, slot) => {
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner);
  });
  bench.commitAll();
  bench.refiner.rushed = false;
}

function start(stagingBytes?: number): { random: Random; owner: number } {
  bench = new StoreBench({ slots: 64, arenaBytes: 32 * 65536 }, stagingBytes);
  return { random: testRandom('store-quick'), owner: bench.owner('a', 'one') };
}

test('in a rush a page is made smaller, shared with nobody, and refined later', () => {
  const { random, owner } = start();
  const page = compressible(random);
  rush([page, page], owner);
  const { slotObject, objectDomain, objectLength } = bench.tables;
  expect([bench.kind(0), bench.kind(1)]).toEqual([Kind.QUICK, Kind.QUICK]);
  expect(slotObject[1]).not.toBe(slotObject[0]);
  expect(objectDomain[slotObject[0]]).toBe(0);
  expect(objectLength[slotObject[0]]).toBeLessThan(PAGE / 2);
  expect(bench.shared.counters[Counter.STAGED_BYTES]).toBe(0);
  expect(bench.read(0)).toEqual(page);
  for (const slot of [0, 1]) expect(bench.refine(slot, owner)).toBe(true);
  bench.commitAll();
  // Both were encoded before either was in place; the next one finds the first.
  expect(bench.kind(0)).toBe(Kind.ZSTD);
  expect(bench.read(0)).toEqual(page);
  expect(bench.read(1)).toEqual(page);
  expect(bench.refine(0, owner)).toBe(false);
  expect(violations(bench)).toEqual([]);
});

test('in a rush equal pages are still found, and what does not get smaller is done with', () => {
  const { random, owner } = start();
  const page = compressible(random);
  bench.write(8, page);
  bench.claim(owner, [8]);
  bench.refine(8, owner);
  bench.commitAll();
  rush([page, random.bytes(PAGE)], owner);
  expect(bench.tables.slotObject[0]).toBe(bench.tables.slotObject[8]);
  expect(bench.kind(1)).toBe(Kind.RAW);
});

test('in a rush a page that was made smaller already is left for later', () => {
  const { random, owner } = start();
  rush([compressible(random)], owner);
  bench.refiner.rushed = true;
  const task = { slot: 0, owner, domain: bench.tables.ownerDomains[owner], pack: undefined, templatePage: 0 };
  expect(bench.refiner.refine(task)).toBe('deferred');
  bench.commitAll();
  expect(bench.kind(0)).toBe(Kind.QUICK);
});

test('a page that was made smaller while it was refined is kept as it was refined', () => {
  const { random, owner } = start();
  const page = compressible(random);
  for (const [slot, rushed] of [true, false].entries()) {
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    // Two workers have read it as it was staged; their results come in either order.
    for (const first of [rushed, !rushed]) {
      bench.refiner.rushed = first;
      bench.refine(slot, owner);
    }
    bench.commitAll();
    expect(bench.kind(slot)).toBe(Kind.ZSTD);
    expect(bench.read(slot)).toEqual(page);
    bench.store.discard(slot, 1);
  }
  expect(violations(bench)).toEqual([]);
});

test('a restart asks for pages that were only made smaller to be claimed again', () => {
  const { random, owner } = start();
  const page = compressible(random);
  rush([page], owner);
  bench.restart();
  expect(bench.read(0)).toEqual(page);
  expect([...bench.claim(owner, [0]).staged]).toEqual([0]);
  bench.refine(0, owner);
  bench.commitAll();
  expect(bench.kind(0)).toBe(Kind.ZSTD);
  expect(bench.read(0)).toEqual(page);
});

test('a page that came when staging was full is refined like any other', () => {
  const { random, owner } = start(0);
  const page = compressible(random);
  bench.write(0, page);
  bench.write(1, page);
  expect(bench.kind(1)).toBe(Kind.QUICK);
  for (const slot of [0, 1]) {
    expect([...bench.claim(owner, [slot]).staged]).toEqual([0]);
    bench.refine(slot, owner);
    bench.commitAll();
  }
  expect(bench.tables.slotObject[1]).toBe(bench.tables.slotObject[0]);
  expect(bench.read(1)).toEqual(page);
});

test('pages that nobody has claimed are made smaller once, and can be claimed', () => {
  const { random, owner } = start();
  const pages = [compressible(random), random.bytes(PAGE), compressible(random), compressible(random)];
  pages.forEach((page, slot) => bench.write(slot, page));
  const until = bench.tables.superblock[Super.SEQUENCE];
  bench.write(4, pages[0]);
  bench.claim(owner, [2]);
  const unclaimed = { after: until - 3, until };
  expect(bench.refiner.shrink(unclaimed, 0, 1)).toBe(3); // slot 0 was written before, slot 2 is claimed
  expect(bench.refiner.shrink(unclaimed, 3, 8)).toBe(-1);
  bench.commitAll();
  const kinds = [Kind.STAGED, Kind.STAGED, Kind.STAGED, Kind.QUICK, Kind.STAGED];
  expect([0, 1, 2, 3, 4].map((slot) => bench.kind(slot))).toEqual(kinds);
  pages.forEach((page, slot) => expect(bench.read(slot)).toEqual(page));
  expect([...bench.claim(owner, [3]).staged]).toEqual([0]);
  bench.refine(3, owner);
  bench.commitAll();
  expect(bench.kind(3)).toBe(Kind.ZSTD);
  expect(violations(bench)).toEqual([]);
});

test('what was claimed meanwhile is not made smaller behind its owner', () => {
  const { random, owner } = start();
  bench.write(0, compressible(random));
  expect(bench.refiner.shrink({ after: 0, until: 1 }, 0, 8)).toBe(-1);
  bench.claim(owner, [0]);
  bench.commitAll();
  expect(bench.kind(0)).toBe(Kind.STAGED);
});

test('a page that zstd takes further nowhere keeps the bytes it has', () => {
  const { random, owner } = start();
  rush([compressible(random)], owner);
  const quick = bench.tables.slotObject[0];
  // No encoding is small enough for this refiner any more.
  bench.refiner = bench.refinerWith({ cutoff: 0.01 });
  bench.refine(0, owner);
  bench.commitAll();
  expect(bench.tables.slotObject[0]).toBe(quick);
  expect(bench.kind(0)).toBe(Kind.ZSTD);
  expect(bench.tables.objectDomain[quick]).toBe(bench.tables.ownerDomains[owner]);
  expect(violations(bench)).toEqual([]);
});

test('a page that is made smaller while a worker reads it is not forgotten', () => {
  const { random, owner } = start();
  rush([compressible(random)], owner);
  const { slotObject } = bench.tables;
  const task = { slot: 0, owner, domain: bench.tables.ownerDomains[owner], pack: undefined, templatePage: 0 };
  // The first look finds the object that is gone by the second.
  const quick = slotObject[0];
  let looks = 0;
  const looking = new Proxy(slotObject, {
    get: (target, key) => (key === '0' && looks++ === 0 ? 0 : (Reflect.get(target, key, target) as unknown)),
  });
  const tables = Object.assign(Object.create(bench.tables) as typeof bench.tables, { slotObject: looking });
  expect(bench.refinerWith({}, tables).refine(task)).toBe('deferred');
  expect(slotObject[0]).toBe(quick);
});

test('a page that compaction moves while a worker reads it is not forgotten', () => {
  const { random, owner } = start();
  const page = compressible(random);
  rush([page], owner);
  const { objectOffset, slotObject, mapping } = bench.tables;
  const task = { slot: 0, owner, domain: bench.tables.ownerDomains[owner], pack: undefined, templatePage: 0 };
  // Where it was is wiped by the time it is read: the last unit of the arena stands for that.
  const wiped = mapping.geometry.arenaBytes / 16 - 1;
  const quick = String(slotObject[0]);
  let looks = 0;
  const moving = new Proxy(objectOffset, {
    get: (target, key) =>
      key === quick && looks++ < 2 ? wiped : (Reflect.get(target, key, target) as unknown),
  });
  const tables = Object.assign(Object.create(bench.tables) as typeof bench.tables, { objectOffset: moving });
  const refiner = bench.refinerWith({}, tables);
  expect(refiner.refine(task)).toBe('deferred');
  expect(looks).toBeGreaterThan(2);
  expect(refiner.refine(task)).toBe('refined');
  bench.commitAll();
  expect(bench.kind(0)).toBe(Kind.ZSTD);
  expect(bench.read(0)).toEqual(page);
});
