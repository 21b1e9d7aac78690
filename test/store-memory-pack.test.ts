import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import {
  isMemoryPackOf,
  memoryRegionKey,
  removeMemoryPack,
  writeMemoryPack,
} from '../src/store/memory-pack.js';
import { isIntact } from '../src/store/memory-source.js';
import { readPackRegions } from '../src/store/pack.js';
import { isReadable, mapPack, packResidentBytes, unmapPack } from '../src/store/packs.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench } from './support/store.js';

let folder: string;
let memory: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-memory-`);
  memory = `${folder}/base.mem`;
  path = `${folder}/t.pack`;
});
afterEach(() => rmSync(folder, { recursive: true }));

const META = { id: 'template', tenant: 'acme', public: false };
const PAGES = 700;

/** Pages of a machine: page 1 is zeros, page 3 equals page 2. */
async function makePack(): Promise<Uint8Array[]> {
  const random = testRandom('store-memory-pack');
  const pages = Array.from({ length: PAGES }, () => random.bytes(PAGE).fill(1, 0, 2000));
  pages[1] = new Uint8Array(PAGE);
  pages[3] = pages[2];
  writeFileSync(memory, Buffer.concat(pages), { mode: 0o600 });
  await writeMemoryPack(path, memory, META);
  return pages;
}

test('a memory file is a template without a copy of its pages', async () => {
  await makePack();
  const { regions, meta, distinctPages, memory: source } = readPackRegions(path);
  const { ino } = statSync(memory);
  expect(regions).toEqual([{ key: memoryRegionKey(String(ino)), start: 0, pages: PAGES }]);
  expect([meta, distinctPages]).toEqual([META, PAGES - 2]);
  expect(source).toMatchObject({ inode: String(ino), bytes: PAGES * PAGE });
  // Hashes, sketches and the map, and not the pages.
  expect(statSync(path).size).toBeLessThan((PAGES * PAGE) / 4);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('pages of machines are stored as references and deltas to the file', async () => {
  const pages = await makePack();
  const bench = new StoreBench({ slots: 16, arenaBytes: 8 * 65536 });
  const owner = bench.owner('machine', 'acme/template');
  const pack = bench.loadPack(path);
  const nearly = pages[600].slice();
  nearly[3000] ^= 0xff;
  const elsewhere = pages[650].slice();
  elsewhere[2500] ^= 0xff;
  const cases: [slot: number, page: Uint8Array, templatePage: number, kind: number][] = [
    [0, pages[5], 5, Kind.TEMPLATE],
    [1, nearly, 600, Kind.TEMPLATE_SPARSE],
    // The twin is kept once, under the first of its pages.
    [2, pages[3], 3, Kind.TEMPLATE],
    // Found by hash and by sketch, where the machine has moved a page.
    [3, pages[699], 0xffffffff, Kind.TEMPLATE],
    [4, elsewhere, 0xffffffff, Kind.TEMPLATE_SPARSE],
  ];
  for (const [slot, page, templatePage, kind] of cases) {
    bench.write(slot, page);
    bench.claim(owner, [slot]);
    bench.refine(slot, owner, pack, templatePage);
    bench.commitAll();
    expect([slot, bench.kind(slot)]).toEqual([slot, kind]);
    expect(bench.read(slot)).toEqual(page);
  }
});

test('a pack that is made already is known again by its file and its owner', async () => {
  await makePack();
  expect(isMemoryPackOf(path, memory, META)).toBe(true);
  expect(isMemoryPackOf(path, memory, { ...META, tenant: 'other' })).toBe(false);
  expect(isMemoryPackOf(path, `${folder}/absent`, META)).toBe(false);
  writeFileSync(`${folder}/other.mem`, new Uint8Array(PAGES * PAGE), { mode: 0o600 });
  expect(isMemoryPackOf(path, `${folder}/other.mem`, META)).toBe(false);
  truncateSync(path, 10);
  expect(isMemoryPackOf(path, memory, META)).toBe(false);
});

test('its host may remove the file: it stays as long as the template does', async () => {
  await makePack();
  rmSync(memory);
  const mapping = mapPack(1, path);
  expect(packResidentBytes(mapping)).toBeGreaterThanOrEqual(0);
  expect(isReadable(mapping)).toBe(true);
  unmapPack(mapping);
  removeMemoryPack(path);
  expect(existsSync(`${path}.mem`)).toBe(false);
  expect(existsSync(path)).toBe(false);
});

test.each<[string, () => void]>([
  ['is written to', () => utimesSync(memory, 1, 1)],
  ['is cut off', () => truncateSync(memory, 3 * PAGE)],
  ['becomes writable for others', () => chmodSync(memory, 0o660)],
  ['is given away', () => chownSync(memory, 1000, 1000)],
])('a file that %s is no template any more', async (_what, spoil) => {
  await makePack();
  const mapping = mapPack(1, path);
  const source = mapping.memory!;
  expect(isIntact(source)).toBe(true);
  spoil();
  expect(isIntact(source)).toBe(false);
  expect(isReadable(mapping)).toBe(false);
  unmapPack(mapping);
  expect(() => mapPack(1, path)).toThrow(expect.objectContaining({ code: 'AZ_PACK_INVALID' }));
});

test.each<[string, () => void]>([
  ['belongs to others', () => chownSync(memory, 1000, 1000)],
  ['can be written by others', () => chmodSync(memory, 0o622)],
  ['is no whole number of pages', () => truncateSync(memory, 5000)],
  ['is empty', () => truncateSync(memory, 0)],
  ['is not there', () => rmSync(memory)],
])('a file that %s is refused, and leaves nothing', async (_what, spoil) => {
  writeFileSync(memory, new Uint8Array(4 * PAGE), { mode: 0o600 });
  spoil();
  await expect(writeMemoryPack(path, memory, META)).rejects.toMatchObject({ code: 'AZ_PACK_INVALID' });
  expect([existsSync(path), existsSync(`${path}.mem`)]).toEqual([false, false]);
});

test('a page that was changed under a template is an error, never other bytes', async () => {
  const pages = await makePack();
  const bench = new StoreBench({ slots: 16, arenaBytes: 8 * 65536 });
  const owner = bench.owner('machine', 'acme/template');
  const pack = bench.loadPack(path);
  bench.write(0, pages[5]);
  bench.claim(owner, [0]);
  bench.refine(0, owner, pack, 5);
  bench.commitAll();
  expect(bench.kind(0)).toBe(Kind.TEMPLATE);
  const changed = Buffer.concat(pages);
  changed[5 * PAGE + 2500] ^= 1;
  writeFileSync(memory, changed);
  expect(bench.read(0)).toBeNull();
});
