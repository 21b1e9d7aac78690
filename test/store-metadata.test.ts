import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { residentBytes } from '../src/native/memory.js';
import { layout, SECTIONS, Super } from '../src/store/layout.js';
import { writePack } from '../src/store/pack.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

const SANDBOXES = 4;
const TEMPLATE_PAGES = 500;
/** Pages of one sandbox: those of the template, some changed; what several have; what none other has. */
const SHARES = { template: 1500, common: 1000, own: 2000 };
const PAGES = SHARES.template + SHARES.common + SHARES.own;
/**
 * Bytes a page that tables and indexes may take. A slot takes 10, an object 22, the hash index some 4.3 an entry and the
 * sketches some 25 a base; here there are 0.85 objects and 0.55 bases a page.
 */
const BUDGET = 49;

let bench: StoreBench | undefined;
let folder: string | undefined;
afterEach(() => {
  bench?.close();
  bench = undefined;
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  folder = undefined;
});

/** Housekeeping of the seconds of a wait. */
const WAIT_TURNS = 100;

/** Bytes of memory that tables have, and bytes that indexes use. What does not grow with pages, names and dictionaries, is left out. */
function metadata({ tables, shared }: StoreBench): Record<string, number> {
  const { sections } = layout(tables.mapping.geometry);
  const columns = SECTIONS.filter((name) => /^(slot|object|used|touched)/.test(name));
  const held = columns.map((name) => {
    const [offset, bytes] = sections[name];
    return [name, residentBytes(tables.mapping.address + offset, bytes)] as const;
  });
  return {
    ...Object.fromEntries(held),
    hashes: shared.hashes.usedBytes,
    sketches: shared.sketches.used().byteLength,
  };
}

test('tables and indexes stay within their budget of bytes a page', async () => {
  const random = testRandom('store-metadata');
  folder = mkdtempSync(`${tmpdir()}/agentzip-metadata-`);
  bench = new StoreBench({ slots: SANDBOXES * PAGES, arenaBytes: SANDBOXES * PAGES * PAGE });
  // Made of few words of its own: it compresses, and is like no other.
  const page = (): Uint8Array => {
    const words = random.bytes(512);
    const bytes = new Uint8Array(PAGE);
    for (let at = 0; at < PAGE; at += 8) {
      const word = random.below(64) * 8;
      bytes.set(words.subarray(word, word + 8), at);
    }
    return bytes;
  };
  const changed = (base: Uint8Array, most: number): Uint8Array => {
    const bytes = base.slice();
    for (let left = 1 + random.below(most); left > 0; left--)
      bytes.set(random.bytes(8), random.below(512) * 8);
    return bytes;
  };
  const template = Array.from({ length: TEMPLATE_PAGES }, page);
  const path = `${folder}/template.pack`;
  const regions = [{ key: 'heap', start: 0, pages: TEMPLATE_PAGES }];
  const pages = template.map((bytes, templatePage) => ({ templatePage, bytes }));
  await writePack(path, regions, pages, { id: 'template', tenant: null, public: true });
  const pack = bench.loadPack(path);
  const common = Array.from({ length: SHARES.common }, page);
  let slot = 0;
  for (let sandbox = 0; sandbox < SANDBOXES; sandbox++) {
    const owner = bench.owner(`sandbox-${sandbox}`, 'domain');
    const store = (bytes: Uint8Array, templatePage?: number): void => {
      bench!.write(slot, bytes);
      bench!.claim(owner, [slot]);
      bench!.refine(slot++, owner, pack, templatePage);
      bench!.commitAll();
    };
    for (let i = 0; i < SHARES.template; i++) {
      const at = i % TEMPLATE_PAGES;
      store(i % 2 === 0 ? template[at] : changed(template[at], 40), at);
    }
    for (const bytes of common) store(random.below(2) === 0 ? bytes : changed(bytes, 10));
    for (let i = 0; i < SHARES.own; i++) store(page());
    bench.cluster(owner);
    bench.keepHouse(WAIT_TURNS);
  }
  const bytes = metadata(bench);
  const perPage = Object.fromEntries(Object.entries(bytes).map(([name, held]) => [name, held / slot]));
  const sum = Object.values(perPage).reduce((total, held) => total + held, 0);
  expect(sum, JSON.stringify(perPage)).toBeLessThan(BUDGET);
  // A page of the template has one object, however many slots have it.
  const { superblock, objectKind } = bench.tables;
  const kinds = objectKind.subarray(0, superblock[Super.HIGH_OBJECT]);
  expect(kinds.reduce((count, kind) => count + (kind === Kind.TEMPLATE ? 1 : 0), 0)).toBe(TEMPLATE_PAGES / 2);
  expect(violations(bench)).toEqual([]);
  const before = sum * slot;
  bench.store.discard(0, slot);
  bench.keepHouse(WAIT_TURNS);
  const after = Object.values(metadata(bench)).reduce((total, held) => total + held, 0);
  expect(after).toBeLessThan(before / 10);
}, 120_000);
