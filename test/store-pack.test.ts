import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { readPackRegions, writePack, type PackPage } from '../src/store/pack.js';
import { mapPack, packResidentBytes, unmapPack } from '../src/store/packs.js';
import { OWNER_STATS, OwnerStat } from '../src/store/volatile.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench } from './support/store.js';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-pack-`);
  path = `${folder}/t.pack`;
});
afterEach(() => rmSync(folder, { recursive: true }));

const META = { id: 'template', tenant: 'acme', public: false };
const REGIONS = [
  { key: 'heap', start: 0x1000, pages: 6 },
  { key: 'anonymous:0', start: 0x7000000, pages: 4 },
];

/** Template pages 0–9: 3 equals 1, 4 is empty, 9 is missing. */
async function makePack(): Promise<Uint8Array[]> {
  const random = testRandom('store-pack');
  const pages = Array.from({ length: 10 }, () => random.bytes(PAGE).fill(1, 0, 2000));
  pages[3] = pages[1];
  pages[4] = new Uint8Array(PAGE);
  const input: PackPage[] = pages.slice(0, 9).map((bytes, templatePage) => ({ templatePage, bytes }));
  expect(await writePack(path, REGIONS, input, META)).toEqual({ pages: 8, distinctPages: 7 });
  return pages;
}

test('a pack gives back its regions, its origin and its distinct pages; only root may read it', async () => {
  await makePack();
  expect(readPackRegions(path)).toEqual({ regions: REGIONS, meta: META, distinctPages: 7 });
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('pages of a template are stored as references and deltas to it', async () => {
  const pages = await makePack();
  const bench = new StoreBench({ slots: 16, arenaBytes: 8 * 65536 });
  const owner = bench.owner('sandbox', 'acme/template');
  const pack = bench.loadPack(path);
  const changed = pages[5].slice();
  for (let at = 2500; at < 2800; at++) changed[at] ^= 0x5a;
  const nearly = pages[5].slice();
  nearly[3000] ^= 0xff;
  const moved = pages[6].slice();
  moved[2500] ^= 0xff;
  // What the template has some pages further on, as in a program started afresh.
  const shifted = new Uint8Array(PAGE);
  shifted.set(pages[7].subarray(2048));
  shifted.set(pages[8].subarray(2048), 2048);
  // Same address, equal; same address, changed; elsewhere, found by its sketch.
  const cases: [slot: number, page: Uint8Array, templatePage: number, kind: number][] = [
    [0, pages[2], 2, Kind.TEMPLATE],
    [1, changed, 5, Kind.TEMPLATE_DELTA],
    [2, moved, 0xffffffff, Kind.TEMPLATE_SPARSE],
    [3, nearly, 5, Kind.TEMPLATE_SPARSE],
    [4, shifted, 5, Kind.TEMPLATE_RUN],
  ];
  for (const [slot, page, templatePage, kind] of cases) {
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner, pack, templatePage);
    bench.commitAll();
    expect(bench.kind(slot)).toBe(kind);
    expect(Buffer.compare(bench.read(slot)!, page)).toBe(0);
  }
  expect(bench.store.objects.packUses[pack]).toBe(5);
  bench.store.discard(0, 5);
  expect(bench.store.objects.packUses[pack]).toBe(0);
  bench.close();
});

test('it is counted what was stored against a base, and what was not although the template has a page there', async () => {
  const random = testRandom('store-pack');
  random.bytes(16 * PAGE); // the same seed gives the template's pages first
  const pages = await makePack();
  const bench = new StoreBench({ slots: 16, arenaBytes: 8 * 65536 });
  const owner = bench.owner('sandbox', 'acme/template');
  const pack = bench.loadPack(path);
  const nearly = pages[5].slice();
  nearly[3000] ^= 0xff;
  const strange = random.bytes(PAGE);
  const cases: [page: Uint8Array, templatePage: number][] = [
    [nearly, 5],
    [strange, 6],
    [random.bytes(PAGE).fill(8, 1000, 3000), 0xffffffff],
    [random.bytes(PAGE), 7],
    [pages[2], 2],
    [strange, 8],
  ];
  cases.forEach(([page, templatePage], slot) => {
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner, pack, templatePage);
    bench.commitAll();
    expect(Buffer.compare(bench.read(slot)!, page)).toBe(0);
  });
  const stat = (name: keyof typeof OwnerStat) =>
    bench.shared.ownerStats[owner * OWNER_STATS + OwnerStat[name]];
  expect(bench.kind(0)).toBe(Kind.TEMPLATE_SPARSE);
  expect([stat('PAGES'), stat('MISFITS'), stat('DELTAS')]).toEqual([6, 2, 2]);
  expect(stat('DELTA_BYTES')).toBe(bench.tables.objectLength[bench.tables.slotObject[0]]);
  bench.close();
});

test('a base that is not what its name says costs ratio, never a page', async () => {
  const pages = await makePack();
  const bench = new StoreBench({ slots: 16, arenaBytes: 8 * 65536 });
  const owner = bench.owner('sandbox', 'acme/template');
  const pack = bench.loadPack(path);
  bench.write(0, pages[0]);
  bench.claim(owner, [0]);
  bench.refine(0, owner, pack, 8); // the template has another page at this address
  bench.commitAll();
  expect(Buffer.compare(bench.read(0)!, pages[0])).toBe(0);
  bench.close();
});

test('a damaged or foreign file is refused', async () => {
  await makePack();
  const good = readFileSync(path);
  const refused = (what: RegExp) => {
    expect(() => mapPack(1, path)).toThrow(what);
  };
  writeFileSync(path, Buffer.concat([Buffer.from('NOTAPACK'), good.subarray(8)]));
  refused(/no template pack/);
  writeFileSync(path, good);
  truncateSync(path, good.length - PAGE);
  refused(/outside the file|too short/);
  truncateSync(path, 100);
  refused(/too short/);
  rmSync(path);
  refused(/ENOENT/);
});

/** A pack of pages that compress to some 640 bytes each, and a bench that has loaded it. */
async function compressible(count: number) {
  const random = testRandom('store-pack');
  const pages = Array.from({ length: count }, () => random.bytes(PAGE).fill(1, 600));
  const input = pages.map((bytes, templatePage) => ({ templatePage, bytes }));
  await writePack(path, [{ key: 'heap', start: 0, pages: count }], input, META);
  const bench = new StoreBench({ slots: count, arenaBytes: 16 * 65536 });
  return { pages, bench, owner: bench.owner('sandbox', 'acme/template'), pack: bench.loadPack(path) };
}

test('pages that became bases cost what they take compressed, also when they are read back', async () => {
  const count = 256;
  const { pages, bench, owner, pack } = await compressible(count);
  for (const [slot, page] of pages.entries()) {
    const changed = page.slice();
    changed[2000 + slot] ^= 0x77;
    bench.write(slot, changed);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner, pack, slot);
    bench.commitAll();
    expect(bench.kind(slot)).toBe(Kind.TEMPLATE_SPARSE);
    expect(Buffer.compare(bench.read(slot)!, changed)).toBe(0);
  }
  const mapping = mapPack(2, path);
  expect(packResidentBytes(mapping)).toBeGreaterThan(100 * count);
  expect(packResidentBytes(mapping)).toBeLessThan(900 * count);
  unmapPack(mapping);
  bench.close();
});

test('a frame that was damaged is no base, and what rests on it is lost, not wrong', async () => {
  const { pages, bench, owner, pack } = await compressible(8);
  const put = (slot: number): void => {
    bench.write(slot, pages[slot]);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner, pack, slot);
    bench.commitAll();
  };
  put(0);
  expect(bench.kind(0)).toBe(Kind.TEMPLATE);
  const mapping = mapPack(2, path);
  const [at, bytes] = mapping.sections.frames;
  unmapPack(mapping);
  // The file is mapped shared: this is seen by the bench.
  const fd = openSync(path, 'r+');
  writeSync(fd, new Uint8Array(bytes).fill(0xee), 0, bytes, at);
  closeSync(fd);
  expect(bench.read(0)).toBeNull();
  put(1);
  expect(bench.kind(1)).not.toBe(Kind.TEMPLATE);
  expect(Buffer.compare(bench.read(1)!, pages[1])).toBe(0);
  bench.close();
});

test('a pack whose frames do not follow each other is refused', async () => {
  await makePack();
  const mapping = mapPack(1, path);
  const [at, length] = mapping.sections.ends;
  unmapPack(mapping);
  const good = readFileSync(path);
  const ends = new Uint32Array(good.buffer.slice(good.byteOffset + at, good.byteOffset + at + length));
  expect(ends).toHaveLength(8);
  for (const [place, end] of [
    [0, 1],
    [3, ends[2]],
    [4, ends[3] + PAGE + 1],
    [7, ends[7] + 1],
  ]) {
    const bad = Buffer.from(good);
    bad.writeUInt32LE(end, at + place * 4);
    writeFileSync(path, bad);
    expect(() => mapPack(1, path), `end ${place}`).toThrow(/pages it does not have/);
  }
});

test('a pack appears whole or not at all', async () => {
  async function* broken(): AsyncGenerator<PackPage> {
    yield { templatePage: 0, bytes: new Uint8Array(PAGE).fill(1, 0, 100) };
    throw new Error('the template exited');
  }
  await expect(writePack(path, REGIONS, broken(), META)).rejects.toThrow('the template exited');
  expect(() => statSync(path)).toThrow(/ENOENT/);
  expect(statSync(folder).isDirectory()).toBe(true);
});

test('a disk that is full, or read only, is told with its path, and nothing is left on it', async () => {
  const random = testRandom('store-pack');
  const mount = `${folder}/small`;
  mkdirSync(mount);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'agentzip-test', mount]);
  const target = `${mount}/t.pack`;
  const pages: PackPage[] = Array.from({ length: 100 }, (_, templatePage) => ({
    templatePage,
    bytes: random.bytes(PAGE),
  }));
  const regions = [{ key: 'heap', start: 0x1000, pages: 100 }];
  const refused = { code: 'AZ_PACK_WRITE', message: expect.stringContaining(target) };
  try {
    await expect(writePack(target, regions, pages, META)).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('no space left on device'),
    });
    expect(readdirSync(mount)).toEqual([]);
    // The room for the columns is what lacks: pages fit to the last byte.
    await expect(writePack(target, regions, pages.slice(0, 31), META)).rejects.toMatchObject(refused);
    expect(readdirSync(mount)).toEqual([]);
    expect(await writePack(target, regions.slice(0, 1), pages.slice(0, 5), META)).toMatchObject({ pages: 5 });
    execFileSync('mount', ['-o', 'remount,ro', mount]);
    await expect(writePack(target, regions, pages, META)).rejects.toMatchObject(refused);
  } finally {
    execFileSync('umount', [mount]);
  }
});
