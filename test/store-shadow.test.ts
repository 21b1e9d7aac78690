import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { Super } from '../src/store/layout.js';
import { writePack } from '../src/store/pack.js';
import { Random, testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

const SLOTS = 500;
const STEPS = 20_000;

let bench: StoreBench;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-shadow-`);
});
afterEach(() => {
  bench?.close();
  rmSync(folder, { recursive: true });
});

/** Pages as sandboxes have them: unlike, alike, equal, same-filled, empty. */
function makePage(random: Random, families: Uint8Array[]): Uint8Array {
  const dice = random.below(10);
  if (dice === 0) return new Uint8Array(PAGE);
  if (dice === 1) return new Uint8Array(PAGE).fill(random.below(256));
  if (dice === 2) return random.bytes(PAGE);
  const family = random.below(families.length);
  const page = families[family].slice();
  // Part of its twin, moved: two bases are better than one.
  if (random.below(2) === 0) {
    page.set(families[(family + FAMILIES) % families.length].subarray(SHARED), 8 * random.below(64));
  }
  // A stretch of it is new.
  if (random.below(4) === 0) page.set(random.bytes(320), 8 * random.below(400));
  const changes = dice < 5 ? 0 : random.below(dice < 9 ? 20 : 1500);
  for (let i = 0; i < changes; i++) page[random.below(PAGE)] = random.below(256);
  return page;
}

/** Families, each with a twin that shares its first so many bytes. */
const FAMILIES = 6;
const SHARED = 3072;

/** Half random, half repetitive: compressible, but not to nothing. */
function makeFamily(random: Random): Uint8Array {
  const page = random.bytes(PAGE);
  for (let at = 0; at < PAGE; at += 16) page.fill(random.below(4), at, at + 10);
  return page;
}

const TEMPLATE_PAGES = 48;

/** A template of some of the families, and of strangers. */
async function makePack(random: Random, families: Uint8Array[]): Promise<number> {
  const page = (templatePage: number): Uint8Array =>
    templatePage % 8 === 0 ? families[templatePage / 8] : random.bytes(PAGE);
  const pages = Array.from({ length: TEMPLATE_PAGES }, (_, i) => ({ templatePage: i, bytes: page(i) }));
  const path = `${folder}/t.pack`;
  const regions = [{ key: 'heap', start: 0x1000, pages: TEMPLATE_PAGES }];
  await writePack(path, regions, pages, { id: 't', tenant: null, public: true });
  return bench.loadPack(path);
}

const MET = [
  ...[
    Kind.SAME,
    Kind.STAGED,
    Kind.QUICK,
    Kind.RAW,
    Kind.ZSTD,
    Kind.DELTA,
    Kind.PAIR,
    Kind.SPARSE,
    Kind.TEMPLATE,
  ],
  ...[
    Kind.TEMPLATE_DELTA,
    Kind.TEMPLATE_RUN,
    Kind.TEMPLATE_PAIR,
    Kind.TEMPLATE_SPARSE,
    Kind.DICTIONARY,
    Kind.MEMBER,
    Kind.CLUSTER,
    Kind.BASED_CLUSTER,
  ],
];

/** Kind of a slot's object, and of its cluster if that is a member of one. */
function kindsOf(slot: number): number[] {
  const { slotObject, objectKind, objectBase } = bench.tables;
  const kind = bench.kind(slot);
  return kind === Kind.MEMBER ? [kind, objectKind[objectBase[slotObject[slot]]]] : [kind];
}

test('the store agrees with a shadow copy through writes, discards, refinement and kills', async () => {
  const random = testRandom('store-shadow');
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 32 * 65536 }, 1 << 20);
  const families = Array.from({ length: FAMILIES }, () => makeFamily(random));
  for (let i = 0; i < FAMILIES; i++) {
    const twin = makeFamily(random);
    twin.set(families[i].subarray(0, SHARED));
    families.push(twin);
  }
  const pack = await makePack(random, families);
  const shadow = new Map<number, Uint8Array>();
  const owners = ['a', 'b', 'c', 'd'].map((name, i) => bench.owner(name, i < 2 ? 'one' : 'two'));
  const ownerOf = (slot: number): number => owners[slot % owners.length];
  let waiting = 0;
  let refused = 0;
  const kinds = new Set<number>();
  let plain = bench.refinerWith({ dictionary: false });

  const verify = (slot: number) => {
    const page = bench.read(slot);
    expect(page, `slot ${slot} is damaged`).not.toBeNull();
    const want = shadow.get(slot) ?? new Uint8Array(PAGE);
    expect(Buffer.compare(page!, want), `slot ${slot} holds other bytes`).toBe(0);
  };

  for (let step = 0; step < STEPS; step++) {
    const slot = random.below(SLOTS);
    const dice = random.below(100);
    if (dice < 40) {
      const page = makePage(random, families);
      if (bench.write(slot, page)) shadow.set(slot, page);
      else {
        // The kernel keeps the page; whatever the slot had is gone.
        shadow.delete(slot);
        refused++;
      }
    } else if (dice < 42) {
      const count = 1 + random.below(16);
      bench.store.discard(slot, count);
      for (let i = slot; i < slot + count; i++) shadow.delete(i);
    } else if (dice < 85) {
      bench.claim(ownerOf(slot), [slot]);
      bench.refiner.rushed = random.below(4) === 0;
      // Sometimes the result meets a store that has changed meanwhile.
      const from = random.below(2) === 0 ? pack : 0;
      const templatePage = 4 * random.below(TEMPLATE_PAGES / 4 + 1);
      // With a dictionary in its domain no page would be compressed by itself.
      const refiner = random.below(8) === 0 ? plain : bench.refiner;
      const refined = bench.refine(slot, ownerOf(slot), from, templatePage, refiner);
      if (refined && (++waiting >= 32 || random.below(3) === 0)) {
        bench.commitAll();
        waiting = 0;
      }
    } else if (dice < 86) {
      if (random.below(10) === 0) bench.store.forget(owners[random.below(owners.length)], false);
      if (random.below(4) === 0)
        bench.addDictionary(1 + random.below(2), Buffer.concat(families.slice(0, 3)));
    } else if (dice < 88) {
      // The ring has room for the clusters of a pass, and nobody else here who would take them off.
      bench.commitAll();
      waiting = 0;
      const before = bench.tables.superblock[Super.SEQUENCE] - random.below(200);
      bench.propose(owners[random.below(owners.length)], before);
      if (random.below(2) === 0) bench.commitAll();
    } else if (dice < 90) {
      bench.store.objects.compact(200);
      if (random.below(8) === 0) bench.store.keepHeadroom(random.below(2) * random.below(2 ** 19));
      if (bench.store.isUnprepared) bench.store.prepare();
      for (let punches = 1 + random.below(4); punches > 0; punches--) bench.store.giveBack(8);
    } else if (dice < 99) {
      verify(slot);
    } else if (random.below(4) === 0) {
      bench.restart();
      plain = bench.refinerWith({ dictionary: false });
      waiting = 0;
    }
    kindsOf(slot).forEach((kind) => kinds.add(kind));
    if (step % 100 === 0) for (let at = 0; at < SLOTS; at++) kindsOf(at).forEach((kind) => kinds.add(kind));
    if (step % 500 === 0) expect(violations(bench)).toEqual([]);
  }
  bench.commitAll();
  // A run that met no delta, no full store and no duplicate has shown nothing of them.
  for (const kind of MET) expect([...kinds]).toContain(kind);
  expect(refused).toBeGreaterThan(0);
  expect(violations(bench)).toEqual([]);
  for (let slot = 0; slot < SLOTS; slot++) verify(slot);
  bench.restart();
  expect(violations(bench)).toEqual([]);
  for (let slot = 0; slot < SLOTS; slot++) verify(slot);
  bench.store.discard(0, SLOTS);
  expect(bench.store.arena.usedBytes).toBe(0);
  expect(bench.store.objects.packUses[pack]).toBe(0);
  expect(violations(bench)).toEqual([]);
});
