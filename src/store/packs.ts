import { closeSync } from 'node:fs';
import { AgentZipError } from '../errors.js';
import { PAGE } from '../native/libc.js';
import {
  MADV_RANDOM,
  madvise,
  MAP_SHARED,
  memcpy,
  mmap,
  munmap,
  PROT_READ,
  residentBytes,
  view,
} from '../native/memory.js';
import { ZstdDecompressor } from '../native/zstd.js';
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
  raw: { address: number; bytes: number };
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
function mapMemory(memory: MemorySource): PackMapping['raw'] {
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
    const elsewhere = memory === null ? null : mapMemory(memory);
    const address = mapFile(fd, bytes);
    const raw = elsewhere ?? { address: address + sections.raw[0], bytes: sections.raw[1] };
    const mapping: PackMapping = { pack, address, bytes, sections, raw, memory, distinct };
    if (!new PackView(mapping).isSound()) {
      unmapPack(mapping);
      throw new AgentZipError('AZ_PACK_INVALID', { path, reason: 'its map names pages it does not have' });
    }
    return mapping;
  } finally {
    closeSync(fd);
  }
}

export function unmapPack({ address, bytes, raw, memory }: PackMapping): void {
  munmap(address, bytes);
  if (memory !== null) munmap(raw.address, raw.bytes);
}

/** Can the pages of a mapped pack still be read? Those of a memory file that was cut off kill whoever touches them. */
export const isReadable = ({ memory }: PackMapping): boolean => memory === null || isIntact(memory);

/** Bytes of the pack's pages that are in memory: what a template costs. Of a memory file also what others have read. */
export function packResidentBytes({ address, sections, raw }: PackMapping): number {
  const [at, bytes] = sections.frames;
  return residentBytes(raw.address, raw.bytes) + residentBytes(address + at, bytes);
}

/** Where more than one read in so many is of a run, most raw pages are in memory anyway, and are the faster way. */
const RUN_SHARE = 8;

/** A thread's view of a mapped pack. Pages are numbered from 1. */
export class PackView {
  readonly pages: number;
  /** Template address in pages → page, 0 for none. */
  readonly map: Uint32Array;
  readonly hashLow: Uint32Array;
  readonly hashHigh: Uint32Array;
  readonly byHash: HashIndex;
  readonly sketches: SketchIndex;
  /** Of pages in the pack: where each one's frame ends, counted from the start of the first. */
  private readonly ends: Uint32Array;
  private pagesRead = 0;
  private runsRead = 0;

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
    this.ends = column('ends');
  }

  /** Does it only name pages that it has? */
  isSound(): boolean {
    const { pages, map, ends, mapping } = this;
    if (pages >= 2 ** PAGE_BITS || pages * PAGE > mapping.raw.bytes) return false;
    if (map.some((page) => page > pages)) return false;
    if (mapping.memory !== null || pages === 0) return true;
    const grow = ends.every((end, i) => i === 0 || (end > ends[i - 1] && end - ends[i - 1] <= PAGE));
    return grow && ends.length === pages + 1 && ends[0] === 0 && ends[pages] <= mapping.sections.frames[1];
  }

  /** Native address of the run that begins with a raw page. */
  runAddress(page: number): number {
    this.runsRead++;
    return this.rawAddress(page);
  }

  /** Puts a page at a native address. False when it is damaged. */
  read(page: number, to: number, zstd: ZstdDecompressor): boolean {
    this.pagesRead++;
    const { mapping, ends } = this;
    const from = mapping.address + mapping.sections.frames[0] + ends[page - 1];
    const length = ends[page] - ends[page - 1];
    const isRaw = mapping.memory !== null || this.runsRead * RUN_SHARE > this.pagesRead;
    if (!isRaw && length < PAGE) return zstd.decompress(to, PAGE, from, length) === PAGE;
    memcpy(to, isRaw ? this.rawAddress(page) : from, PAGE);
    return true;
  }

  private rawAddress(page: number): number {
    return this.mapping.raw.address + (page - 1) * PAGE;
  }
}

/** The packs one thread knows, by number. */
export class PackSet {
  private readonly views: (PackView | undefined)[] = [];
  private readonly zstd = new ZstdDecompressor();

  add(mapping: PackMapping): void {
    this.views[mapping.pack] = new PackView(mapping);
  }

  remove(pack: number): void {
    this.views[pack] = undefined;
  }

  get(pack: number): PackView | undefined {
    return this.views[pack];
  }

  /** Puts the page that a reference names at a native address. False when it can not be had. */
  read(reference: number, to: number): boolean {
    return this.holder(reference)?.read(packPageOf(reference), to, this.zstd) ?? false;
  }

  /** Native address of the run of raw pages that begins with the one a reference names, or 0 when there is none. */
  runAddress(reference: number): number {
    return this.holder(reference)?.runAddress(packPageOf(reference)) ?? 0;
  }

  /** Its bytes, 0 when there is none. */
  runBytes(reference: number): number {
    const pack = this.views[packOf(reference)];
    return pack === undefined ? 0 : runPages(packPageOf(reference), pack.pages) * PAGE;
  }

  /** The pack that has the page a reference names. */
  private holder(reference: number): PackView | undefined {
    const pack = this.views[packOf(reference)];
    const page = packPageOf(reference);
    return pack === undefined || page === 0 || page > pack.pages ? undefined : pack;
  }
}
