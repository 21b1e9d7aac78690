import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { Workspace } from '../codec/kernels.js';
import { AgentZipError } from '../errors.js';
import { AtomicFile } from '../native/atomic-file.js';
import { dropCache } from '../native/files.js';
import { PAGE } from '../native/libc.js';
import { ZstdCompressor } from '../native/zstd.js';
import { HashIndex, hashIndexWords } from './hash-index.js';
import type { MemorySource } from './memory-source.js';
import { SketchIndex, sketchIndexWords } from './sketch-index.js';

/** A run of template addresses: `pages` pages that began at address `start` of the captured process. */
export interface PackRegion {
  /** What the region was, e.g. `heap` or `private-file:/usr/lib/libx.so:1`: names it in processes started afresh. */
  key: string;
  start: number;
  pages: number;
}

export interface PackMeta {
  id: string;
  tenant: string | null;
  public: boolean;
}

/** One page of a template; `templatePage` counts pages over all regions in their order. */
export interface PackPage {
  templatePage: number;
  bytes: Uint8Array;
}

/**
 * File: header page, distinct pages unless they are in a memory file, then u32 columns, then JSON. Header: magic, version,
 * then offset and length in bytes of each section, as doubles. Distinct pages are there twice, for only what is touched of a
 * file costs memory: as zstd frames, one a page (raw when that is no smaller), which is how a page becomes a base of
 * another; and `raw`, for runs of pages are read where they lie. `ends` has where in `frames` each page ends. Page numbers
 * in columns are 1-based so that 0 can mean none.
 */
const MAGIC = 'AZPACK04';
export const PACK_SECTIONS = [
  'raw',
  'frames',
  'ends',
  'map',
  'hashLow',
  'hashHigh',
  'hashes',
  'sketches',
  'json',
] as const;
export type PackSection = (typeof PACK_SECTIONS)[number];
export type PackSections = Record<PackSection, [offset: number, bytes: number]>;

const HEADER_SECTIONS_AT = 16;
/**
 * With plain literals, which decode in 4.3 µs and not in 6; at this level frames are as large as at level 3 with compressed ones, for
 * 28 µs a page and not 17. Level 9 makes pages 5 % smaller in five times the time, and the controller has other things to do.
 */
const LEVEL = 5;
/** `ends` are 32 bits wide. */
const MOST_BYTES = 2 ** 32 - 1;

/** Where the distinct pages of a pack are. Pages count from 1. */
export interface PackPages {
  /** Keeps a page that is new; returns its number, which grows from page to page. */
  keep(page: PackPage): number;
  /** Reads a page that was kept. */
  read(page: number, into: Uint8Array): void;
}

/** Collects what is to be known of the distinct pages while they come by. */
class PackBuilder {
  private readonly workspace = new Workspace(3 * PAGE);
  private readonly hashLow: Uint32Array;
  private readonly hashHigh: Uint32Array;
  private readonly byHash: HashIndex;
  private readonly sketches: SketchIndex;
  readonly map: Uint32Array;
  distinct = 0;
  /** Highest number of a page. */
  private last = 0;

  constructor(
    private readonly pages: PackPages,
    totalPages: number,
  ) {
    this.map = new Uint32Array(totalPages);
    this.hashLow = new Uint32Array(totalPages + 1);
    this.hashHigh = new Uint32Array(totalPages + 1);
    const hashWords = new Uint32Array(hashIndexWords(totalPages));
    this.byHash = new HashIndex(hashWords, this.hashLow, this.hashHigh, null);
    this.byHash.reset();
    this.sketches = new SketchIndex(new Uint32Array(sketchIndexWords(totalPages)));
    this.sketches.reset();
  }

  add({ templatePage, bytes }: PackPage): void {
    const { kernels, words } = this.workspace;
    this.workspace.bytes.set(bytes, 0);
    // Same-filled pages need no base.
    if (kernels.isSameFilled(0) === 1) return;
    kernels.xxh64(0, PAGE);
    const low = words[PAGE / 4];
    const high = words[PAGE / 4 + 1];
    let page = this.byHash.find(low, high, 0);
    if (page === 0 || !this.holds(page)) {
      this.distinct++;
      page = this.pages.keep({ templatePage, bytes: this.workspace.bytes.subarray(0, PAGE) });
      this.last = page;
      this.hashLow[page] = low;
      this.hashHigh[page] = high;
      this.byHash.insert(page);
      kernels.sketch(0, PAGE);
      this.sketches.insert(words, PAGE / 4, 0, page, this.distinct);
    }
    this.map[templatePage] = page;
  }

  columns(): [PackSection, Uint8Array][] {
    const bytes = (words: Uint32Array): Uint8Array =>
      new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
    return [
      ['map', bytes(this.map)],
      ['hashLow', bytes(this.hashLow.slice(0, this.last + 1))],
      ['hashHigh', bytes(this.hashHigh.slice(0, this.last + 1))],
      ['hashes', bytes(this.byHash.used())],
      ['sketches', bytes(this.sketches.used())],
    ];
  }

  /** Does the page already kept hold the bytes in the workspace? */
  private holds(page: number): boolean {
    this.pages.read(page, this.workspace.bytes.subarray(2 * PAGE, 3 * PAGE));
    return this.workspace.kernels.differingWords(0, 2 * PAGE) === 0;
  }
}

/** Distinct pages that are written into the pack itself: raw behind the header, frames behind the place for all raw ones. */
class OwnPages implements PackPages {
  private readonly workspace = new Workspace(2 * PAGE);
  private readonly compressor = new ZstdCompressor(LEVEL, true);
  private readonly ends: Uint32Array;
  private readonly framesAt: number;
  private count = 0;

  constructor(
    private readonly fd: number,
    private readonly path: string,
    mostPages: number,
  ) {
    this.ends = new Uint32Array(mostPages + 1);
    this.framesAt = PAGE * (1 + mostPages);
  }

  keep({ bytes }: PackPage): number {
    const { fd, workspace, ends, framesAt } = this;
    const at = ends[this.count++];
    if (at > MOST_BYTES - PAGE) {
      throw new AgentZipError('AZ_PACK_WRITE', { path: this.path, reason: 'its pages take more than 4 GiB' });
    }
    workspace.bytes.set(bytes, 0);
    const { address } = workspace;
    const length = this.compressor.compress(address + PAGE, PAGE - 1, address, PAGE);
    const frame = length > 0 ? workspace.bytes.subarray(PAGE, PAGE + length) : bytes;
    writeWhole(fd, bytes, PAGE * this.count);
    writeWhole(fd, frame, framesAt + at);
    ends[this.count] = at + frame.length;
    return this.count;
  }

  read(page: number, into: Uint8Array): void {
    readSync(this.fd, into, 0, PAGE, page * PAGE);
  }

  /** Sections that are written already, and the column that belongs to them. */
  sections(): Pick<PackSections, 'raw' | 'frames'> {
    return { raw: [PAGE, this.count * PAGE], frames: [this.framesAt, this.ends[this.count]] };
  }

  column(): Uint8Array {
    return new Uint8Array(this.ends.buffer, 0, this.count === 0 ? 0 : (this.count + 1) * 4);
  }
}

/**
 * Writes a template pack (mode 0600), atomically: the file appears whole or not at all. Pages may come in any order;
 * those that are missing or same-filled have no base. `elsewhere`: the distinct pages stay in a memory file, and the pack has
 * only what is to be known of them. Returns addressed and distinct pages. AZ_PACK_WRITE when the disk does not take it.
 */
export async function writePack(
  path: string,
  regions: readonly PackRegion[],
  pages: AsyncIterable<PackPage> | Iterable<PackPage>,
  meta: PackMeta,
  elsewhere?: { pages: PackPages; memory: MemorySource },
): Promise<{ pages: number; distinctPages: number }> {
  const total = regions.reduce((sum, region) => sum + region.pages, 0);
  const file = whileWriting(path, () => new AtomicFile(path));
  const { fd } = file;
  try {
    const own = new OwnPages(fd, path, elsewhere === undefined ? total : 0);
    const builder = new PackBuilder(elsewhere?.pages ?? own, total);
    for await (const page of pages) builder.add(page);
    writeTables(fd, builder, own, { regions, meta, memory: elsewhere?.memory });
    fsyncSync(fd);
    // Only pages that become a base shall cost memory.
    dropCache(fd);
    whileWriting(path, () => file.publish());
    return {
      pages: builder.map.reduce((count, page) => count + (page === 0 ? 0 : 1), 0),
      distinctPages: builder.distinct,
    };
  } catch (error) {
    file.abandon();
    throw asWriteError(path, error);
  }
}

/** What follows the pages, and the header that says where it is. */
function writeTables(fd: number, builder: PackBuilder, own: OwnPages, facts: object): void {
  const sections = { ...own.sections() } as PackSections;
  const json = new TextEncoder().encode(JSON.stringify({ ...facts, distinct: builder.distinct }));
  const columns: [PackSection, Uint8Array][] = [['ends', own.column()], ...builder.columns(), ['json', json]];
  let at = sections.frames[0] + sections.frames[1];
  for (const [name, bytes] of columns) {
    at = Math.ceil(at / PAGE) * PAGE;
    sections[name] = [at, bytes.length];
    writeWhole(fd, bytes, at);
    at += bytes.length;
  }
  writeWhole(fd, encodeHeader(sections), 0);
}

/** A disk that is nearly full takes a part without an error. */
function writeWhole(fd: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length;) {
    done += writeSync(fd, bytes, done, bytes.length - done, at + done);
  }
}

/** What the file system said, as AZ_PACK_WRITE; anything else is what it was. */
function asWriteError(path: string, error: unknown): unknown {
  const { syscall, message } = error as NodeJS.ErrnoException;
  if (!(error instanceof Error) || syscall === undefined) return error;
  return new AgentZipError('AZ_PACK_WRITE', { path, reason: message }, { cause: error });
}

/** Does something for a pack at `path` that the file system may refuse. AZ_PACK_WRITE. */
export function whileWriting<T>(path: string, write: () => T): T {
  try {
    return write();
  } catch (error) {
    throw asWriteError(path, error);
  }
}

function encodeHeader(sections: PackSections): Uint8Array {
  const header = Buffer.alloc(PAGE);
  header.write(MAGIC, 0, 'latin1');
  PACK_SECTIONS.forEach((name, i) => {
    header.writeDoubleLE(sections[name][0], HEADER_SECTIONS_AT + i * 16);
    header.writeDoubleLE(sections[name][1], HEADER_SECTIONS_AT + i * 16 + 8);
  });
  return header;
}

/** Opens a pack to read. AZ_PACK_INVALID. */
export function openPack(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw new AgentZipError('AZ_PACK_INVALID', { path, reason: (error as Error).message });
  }
}

/** Sections of a pack, checked against the size of its file. AZ_PACK_INVALID when they do not fit. */
export function readPackSections(fd: number, path: string): PackSections {
  const header = Buffer.alloc(PAGE);
  const size = fstatSync(fd).size;
  const refuse = (reason: string) => new AgentZipError('AZ_PACK_INVALID', { path, reason });
  if (readSync(fd, header, 0, PAGE, 0) !== PAGE) throw refuse('it is too short');
  if (header.toString('latin1', 0, MAGIC.length) !== MAGIC)
    throw refuse('it is no template pack of this version');
  const sections = {} as PackSections;
  PACK_SECTIONS.forEach((name, i) => {
    const offset = header.readDoubleLE(HEADER_SECTIONS_AT + i * 16);
    const bytes = header.readDoubleLE(HEADER_SECTIONS_AT + i * 16 + 8);
    if (!(Number.isSafeInteger(offset) && Number.isSafeInteger(bytes) && offset >= PAGE && bytes >= 0)) {
      throw refuse(`section ${name} is damaged`);
    }
    if (offset % PAGE !== 0 || offset + bytes > size) throw refuse(`section ${name} lies outside the file`);
    sections[name] = [offset, bytes];
  });
  return sections;
}

/** What a pack says of itself. */
export interface PackFacts {
  regions: PackRegion[];
  meta: PackMeta;
  distinct: number;
  /** Where its distinct pages are; missing: in the pack. */
  memory?: MemorySource;
}

/** AZ_PACK_INVALID. */
export function readPackFacts(fd: number, [offset, bytes]: PackSections['json'], path: string): PackFacts {
  const json = Buffer.alloc(bytes);
  readSync(fd, json, 0, bytes, offset);
  try {
    return JSON.parse(json.toString('utf8')) as PackFacts;
  } catch (error) {
    throw new AgentZipError('AZ_PACK_INVALID', { path, reason: (error as Error).message });
  }
}

/** Regions and origin of a pack on disk. */
export function readPackRegions(
  path: string,
): Pick<PackFacts, 'regions' | 'meta' | 'memory'> & { distinctPages: number } {
  const fd = openPack(path);
  try {
    const { distinct, ...facts } = readPackFacts(fd, readPackSections(fd, path).json, path);
    return { ...facts, distinctPages: distinct };
  } finally {
    closeSync(fd);
  }
}
