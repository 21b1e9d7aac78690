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
import { openPack, readPackSections, type PackSection, type PackSections } from './pack.js';
import { runPages } from './runs.js';
import { SketchIndex } from './sketch-index.js';

/** A pack mapped into this process; plain data, so that every thread can make its own view of it. */
export interface PackMapping {
  /** Number within the store; part of every reference to one of its pages. */
  pack: number;
  address: number;
  bytes: number;
  sections: PackSections;
}

const PAGE_BITS = 24;

/** A base reference: pack number and page within the pack, as kept in objects. */
export const packReference = (pack: number, page: number): number => ((pack << PAGE_BITS) | page) >>> 0;
export const packOf = (reference: number): number => reference >>> PAGE_BITS;
export const packPageOf = (reference: number): number => reference & (2 ** PAGE_BITS - 1);

/** Maps a pack read only and checks it. AZ_PACK_INVALID. */
export function mapPack(pack: number, path: string): PackMapping {
  const fd = openPack(path);
  try {
    const sections = readPackSections(fd, path);
    const bytes = Math.max(...Object.values(sections).map(([offset, length]) => offset + length));
    const mapping = { pack, address: mmap(bytes, PROT_READ, MAP_SHARED, fd), bytes, sections };
    // Read-ahead would make the whole template resident where a few of its pages are wanted.
    madvise(mapping.address, bytes, MADV_RANDOM);
    const view = new PackView(mapping);
    if (view.pages >= 2 ** PAGE_BITS || view.map.some((page) => page > view.pages)) {
      munmap(mapping.address, bytes);
      throw new AgentZipError('AZ_PACK_INVALID', { path, reason: 'its map names pages it does not have' });
    }
    return mapping;
  } finally {
    closeSync(fd);
  }
}

export const unmapPack = (mapping: PackMapping): void => munmap(mapping.address, mapping.bytes);

/** Bytes of the pack's raw pages that are in memory: what a template costs. */
export const packResidentBytes = ({ address, sections }: PackMapping): number =>
  residentBytes(address + sections.pages[0], sections.pages[1]);

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
    this.pages = mapping.sections.pages[1] / PAGE;
    this.map = column('map');
    this.hashLow = column('hashLow');
    this.hashHigh = column('hashHigh');
    this.byHash = new HashIndex(column('hashes'), this.hashLow, this.hashHigh, null);
    this.sketches = new SketchIndex(column('sketches'));
  }

  /** Native address of a page. */
  address(page: number): number {
    return this.mapping.address + this.mapping.sections.pages[0] + (page - 1) * PAGE;
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
