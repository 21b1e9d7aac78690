import { fstatSync } from 'node:fs';
import { ftruncate, punchHole } from '../native/files.js';
import {
  MAP_NORESERVE,
  MAP_SHARED,
  memfdCreate,
  mmap,
  PROT_READ,
  PROT_WRITE,
  view,
} from '../native/memory.js';
import { HashIndex, hashIndexWords } from './hash-index.js';
import { MAX_OWNERS, objectCount, type Geometry } from './layout.js';
import { RESULT_RING_BYTES, ResultRing } from './results.js';
import { SketchIndex, sketchIndexWords } from './sketch-index.js';
import { SlotSet } from './slot-set.js';
import type { Tables } from './tables.js';

/** What the pager's threads share and a restart rebuilds: indexes, result rings, counters. */
export interface VolatileMapping {
  address: number;
  fd: number;
  geometry: Geometry;
  workers: number;
}

/** Counters of the data loop; doubles, so that they never wrap. */
export const Counter = {
  READS: 0,
  WRITES: 1,
  DISCARDS: 2,
  CORRUPT: 3,
  STAGED_BYTES: 4,
  /** Pages of writes that found the store full. */
  REFUSED: 5,
  /** Slot of the last page that did not match its hash. */
  CORRUPT_SLOT: 6,
  /** Slots freed before the kernel said that they are free. */
  FREED: 7,
} as const;
const COUNTERS = 16;

/** Per owner since its window opened. KINDS is the first of one counter for each Kind; duplicates count as kind 0. */
export const OwnerStat = {
  PAGES: 0,
  BYTES_OUT: 1,
  CPU_MS: 2,
  /** Pages without a base although the template has one at their address. */
  MISFITS: 3,
  /** Pages against a base, and their bytes. */
  DELTAS: 4,
  DELTA_BYTES: 5,
  KINDS: 6,
} as const;
export const OWNER_STATS = 32;

const align = (bytes: number): number => Math.ceil(bytes / 4096) * 4096;

function parts(geometry: Geometry, workers: number) {
  // A base is a page that is no delta against another: at worst every page. The sketch index forgets before that.
  const sizes = {
    counters: COUNTERS * 8,
    windowOpen: MAX_OWNERS * 4,
    ownerStats: MAX_OWNERS * OWNER_STATS * 8,
    apart: Math.ceil(geometry.slots / 8),
    rings: workers * align(RESULT_RING_BYTES),
    hashes: hashIndexWords(objectCount(geometry)) * 4,
    sketches: sketchIndexWords(Math.ceil(geometry.slots / 2)) * 4,
  };
  let offset = 0;
  const at = Object.fromEntries(
    Object.entries(sizes).map(([name, bytes]) => {
      const part = { offset, bytes };
      offset += align(bytes);
      return [name, part];
    }),
  ) as Record<keyof typeof sizes, { offset: number; bytes: number }>;
  return { at, bytes: offset };
}

/** Zero throughout. Its own memory file, so that what it costs can be told. */
export function createVolatile(geometry: Geometry, workers: number): VolatileMapping {
  const { bytes } = parts(geometry, workers);
  const fd = memfdCreate('agentzip-index');
  ftruncate(fd, bytes);
  const address = mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd);
  return { address, fd, geometry, workers };
}

/** Bytes that are mapped for it. */
export const volatileBytes = ({ geometry, workers }: VolatileMapping): number =>
  parts(geometry, workers).bytes;

/** Bytes of memory a memory file takes. */
export const memoryBytes = (fd: number): number => fstatSync(fd).blocks * 512;

/** One thread's view. */
export class Volatile {
  readonly counters: Float64Array;
  /** 1 while a sandbox's window is open; workers look before every page. */
  readonly windowOpen: Int32Array;
  readonly ownerStats: Float64Array;
  /** Slots whose pages are not to be put together with others. */
  readonly apart: SlotSet;
  readonly rings: ResultRing[];
  readonly hashes: HashIndex;
  readonly sketches: SketchIndex;

  constructor(
    private readonly mapping: VolatileMapping,
    tables: Tables,
  ) {
    const { at } = parts(mapping.geometry, mapping.workers);
    const part = (name: keyof typeof at): ArrayBuffer =>
      view(mapping.address + at[name].offset, at[name].bytes);
    this.counters = new Float64Array(part('counters'));
    this.windowOpen = new Int32Array(part('windowOpen'));
    this.ownerStats = new Float64Array(part('ownerStats'));
    this.apart = new SlotSet(new Uint8Array(part('apart')));
    this.rings = Array.from({ length: mapping.workers }, (_, worker) => {
      const address = mapping.address + at.rings.offset + worker * align(RESULT_RING_BYTES);
      return new ResultRing(view(address, RESULT_RING_BYTES), address);
    });
    const { objectHashLow, objectHashHigh, objectDomain } = tables;
    this.hashes = new HashIndex(new Uint32Array(part('hashes')), objectHashLow, objectHashHigh, objectDomain);
    this.sketches = new SketchIndex(new Uint32Array(part('sketches')));
  }

  /** Makes an index smaller that was larger once, and gives the rest back; for the writer. False: none is too large. */
  shrink(bases: number): boolean {
    const { at } = parts(this.mapping.geometry, this.mapping.workers);
    const { freed } = this.hashes;
    if (this.hashes.shrink()) {
      punchHole(this.mapping.fd, at.hashes.offset + freed.at, freed.bytes);
      return true;
    }
    const before = align(this.sketches.used().byteLength);
    if (!this.sketches.shrink(bases)) return false;
    const after = align(this.sketches.used().byteLength);
    if (before > after) punchHole(this.mapping.fd, at.sketches.offset + after, before - after);
    return true;
  }
}
