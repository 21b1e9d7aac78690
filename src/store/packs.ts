import { closeSync } from 'node:fs';
import { AgentZipError } from '../errors.js';
import { PAGE } from '../native/libc.js';
import {
  MADV_RANDOM,
  madvise,
  MAP_SHARED,
  mmap,
  munmap,
  PROT_READ,
  residentBytes,
  view,
} from '../native/memory.js';
import { HashIndex } from './hash-index.js';
import { isIntact, openMemorySource, type MemorySource } from './memory-source.js';
import { openPack, readPackFacts, readPackSections, type PackSection, type PackSections } from './pack.js';
import { runPages } from './runs.js';
import { SketchIndex } from './sketch-index.js';

/** A pack mapped into this process; plain data, so that every thread can make its own view of it. */
export interface PackMapping {
  /** Number within the store; part of every reference to one of its pages. */
  pack: number;
  address: number;
  bytes: number;
  sections: PackSections;
  /** Where its raw pages are: in the pack, or a memory file that is mapped for them. */
  pages: { address: number; bytes: number };
  memory: MemorySource | null;
  distinct: number;
}

const PAGE_BITS = 24;

/** A base reference: pack number and page within the pack, as kept in objects. */
export const packReference = (pack: number, page: number): number => ((pack << PAGE_BITS) | page) >>> 0;
export const packOf = (reference: number): number => reference >>> PAGE_BITS;
export const packPageOf = (reference: number): number => reference & (2 ** PAGE_BITS - 1);

/** Maps a file read only. */
function mapFile(fd: number, bytes: number): number {
  const address = mmap(bytes, PROT_READ, MAP_SHARED, fd);
  // Read-ahead would make the whole template resident where a few of its pages are wanted.
  madvise(address, bytes, MADV_RANDOM);
  return address;
}

/** Maps the raw pages of a pack that are in a memory file. AZ_PACK_INVALID when that is not as it was. */
function mapMemory(memory: MemorySource): PackMapping['pages'] {
  const { fd } = openMemorySource(memory.path, memory);
  try {
    return { address: mapFile(fd, memory.bytes), bytes: memory.bytes };
  } finally {
    closeSync(fd);
  }
}

/** Maps a pack read only and checks it. AZ_PACK_INVALID. */
export function mapPack(pack: number, path: string): PackMapping {
  const fd = openPack(path);
  try {
    const sections = readPackSections(fd, path);
    const { memory = null, distinct } = readPackFacts(fd, sections.json, path);
    const bytes = Math.max(...Object.values(sections).map(([offset, length]) => offset + length));
    const pages = memory === null ? null : mapMemory(memory);
    const address = mapFile(fd, bytes);
    const own = { address: address + sections.pages[0], bytes: sections.pages[1] };
    const mapping: PackMapping = { pack, address, bytes, sections, pages: pages ?? own, memory, distinct };
    const view = new PackView(mapping);
    const fits = view.pages * PAGE <= mapping.pages.bytes && view.pages < 2 ** PAGE_BITS;
    if (!fits || view.map.some((page) => page > view.pages)) {
      unmapPack(mapping);
      throw new AgentZipError('AZ_PACK_INVALID', { path, reason: 'its map names pages it does not have' });
    }
    return mapping;
  } finally {
    closeSync(fd);
  }
}

export function unmapPack({ address, bytes, pages, memory }: PackMapping): void {
  munmap(address, bytes);
  if (memory !== null) munmap(pages.address, pages.bytes);
}

/** Can the pages of a mapped pack still be read? Those of a memory file that was cut off kill whoever touches them. */
export const isReadable = ({ memory }: PackMapping): boolean => memory === null || isIntact(memory);

/** Bytes of the pack's raw pages that are in memory: what a template costs. Of a memory file also what others have read. */
export const packResidentBytes = ({ pages }: PackMapping): number =>
  residentBytes(pages.address, pages.bytes);

/** One thread's view of a mapped pack. Pages are numbered from 1. */
export class PackView {
  readonly pages: number;
  /** Template address in pages → page, 0 for none. */
  readonly map: Uint32Array;
  readonly hashLow: Uint32Array;
  readonly hashHigh: Uint32Array;
  readonly byHash: HashIndex;
  readonly sketches: SketchIndex;

  constructor(readonly mapping: PackMapping) {
    const column = (name: PackSection): Uint32Array => {
      const [offset, bytes] = mapping.sections[name];
      return bytes === 0 ? new Uint32Array(0) : new Uint32Array(view(mapping.address + offset, bytes));
    };
    this.map = column('map');
    this.hashLow = column('hashLow');
    this.hashHigh = column('hashHigh');
    // What page 0 would have is there too.
    this.pages = Math.max(0, this.hashLow.length - 1);
    this.byHash = new HashIndex(column('hashes'), this.hashLow, this.hashHigh, null);
    this.sketches = new SketchIndex(column('sketches'));
  }

  /** Native address of a page. */
  address(page: number): number {
    return this.mapping.pages.address + (page - 1) * PAGE;
  }
}

/** The packs one thread knows, by number. */
export class PackSet {
  private readonly views: (PackView | undefined)[] = [];

  add(mapping: PackMapping): void {
    this.views[mapping.pack] = new PackView(mapping);
  }

  remove(pack: number): void {
    this.views[pack] = undefined;
  }

  get(pack: number): PackView | undefined {
    return this.views[pack];
  }

  /** Native address of the page a reference names, or 0 when there is none. */
  address(reference: number): number {
    const pack = this.views[packOf(reference)];
    const page = packPageOf(reference);
    return pack === undefined || page === 0 || page > pack.pages ? 0 : pack.address(page);
  }

  /** Bytes of the run of pages that begins with the one a reference names, 0 when there is none. */
  runBytes(reference: number): number {
    const pack = this.views[packOf(reference)];
    return pack === undefined ? 0 : runPages(packPageOf(reference), pack.pages) * PAGE;
  }
}
