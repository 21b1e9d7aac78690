import { PAGE } from '../native/libc.js';

/** Sizes of a store, fixed when it is made. */
export interface Geometry {
  /** Pages of the swap device. */
  slots: number;
  /** Most bytes of page data; a multiple of SEGMENT. */
  arenaBytes: number;
}

export const FORMAT_VERSION = 9;
export const MAGIC = 0x53545a41; // "AZTS"

/** Sandboxes known at a time, trust domains with objects, template packs in use. Ids start at 1; 0 is "nobody". */
export const MAX_OWNERS = 4096;
export const MAX_DOMAINS = 4096;
export const MAX_PACKS = 255;
/** Dictionaries at a time, of all domains, and the most bytes of one: a multiple of a page. */
export const MAX_DICTIONARIES = 255;
export const DICTIONARY_BYTES = 65536;
/** Most pages of a cluster. */
export const MAX_CLUSTER = 8;
/**
 * Bits of a slot's owner; the rest is the owner's number. SOLE: nobody but the owner, and what descends from it, can have
 * the page. FETCHED: a SOLE slot was read since it was last watched. LOST: the slot was freed here, before the kernel said
 * that it is free; to be asked for it is a fault of ours.
 */
export const SOLE = 0x8000;
export const FETCHED = 0x4000;
export const LOST = 0x2000;
export const OWNER_MASK = 0x1fff;
const OWNER_NAME_BYTES = 256;
const DOMAIN_NAME_BYTES = 512;
const PACK_NAME_BYTES = 1024;

/** Entries of a table that go back to the kernel together: a page of its narrowest column. */
export const BLOCK = PAGE;
const blocksOf = (entries: number): number => Math.ceil(entries / BLOCK);

/** Granule of the arena: segments are given to a size class, and back to the kernel, whole. */
export const SEGMENT = 65536;

/** Words of the superblock. */
export const Super = {
  MAGIC: 0,
  VERSION: 1,
  SLOTS: 2,
  ARENA_SEGMENTS: 3,
  /** Counts writes of slots, modulo 2^32; each slot keeps the value of its last write. */
  SEQUENCE: 4,
  /** One more than the highest slot and object ever used: scans stop there. */
  HIGH_SLOT: 5,
  HIGH_OBJECT: 6,
} as const;
const SUPERBLOCK_BYTES = PAGE;
/** Where in the superblock's page the mutex of the store's writer is; see RobustMutex. */
export const WRITER_MUTEX_AT = 2048;

export const SECTIONS = [
  'superblock',
  'ownerNames',
  'ownerDomains',
  'domainNames',
  'packNames',
  'dictionaryDomain',
  'dictionaryVersion',
  'dictionaryLength',
  'dictionaryOpen',
  'dictionaryBytes',
  'usedSlots',
  'usedObjects',
  'touchedSlots',
  'touchedObjects',
  'slotObject',
  'slotSequence',
  'slotOwner',
  'objectKind',
  'objectLength',
  'objectDomain',
  'objectOffset',
  'objectBase',
  'objectRefs',
  'objectRefsWide',
  'objectHashLow',
  'objectHashHigh',
  'arena',
] as const;
export type Section = (typeof SECTIONS)[number];

/**
 * Where everything sits in the store's memory file: name → [offset, bytes], page aligned. Unused parts stay holes.
 *
 * Columns, not rows: a scan reads only what it asks for. A slot costs 10 bytes (u32 object, u32 sequence,
 * u16 owner), an object 22 (u8 kind, u16 length, u16 domain, u32 arena offset, u32 base, u8 references, u64 hash); what an
 * object has of more references is in a column that is a hole nearly everywhere (RefCounts).
 */
export function layout(geometry: Geometry): {
  sections: Record<Section, [offset: number, bytes: number]>;
  bytes: number;
} {
  const { slots, arenaBytes } = geometry;
  const objects = objectCount(geometry);
  const sizes: Record<Section, number> = {
    superblock: SUPERBLOCK_BYTES,
    ownerNames: MAX_OWNERS * OWNER_NAME_BYTES,
    ownerDomains: MAX_OWNERS * 2,
    domainNames: MAX_DOMAINS * DOMAIN_NAME_BYTES,
    packNames: (MAX_PACKS + 1) * PACK_NAME_BYTES,
    dictionaryDomain: (MAX_DICTIONARIES + 1) * 2,
    dictionaryVersion: (MAX_DICTIONARIES + 1) * 4,
    dictionaryLength: (MAX_DICTIONARIES + 1) * 4,
    dictionaryOpen: MAX_DICTIONARIES + 1,
    dictionaryBytes: (MAX_DICTIONARIES + 1) * DICTIONARY_BYTES,
    usedSlots: blocksOf(slots) * 2,
    usedObjects: blocksOf(objects) * 2,
    touchedSlots: blocksOf(slots),
    touchedObjects: blocksOf(objects),
    slotObject: slots * 4,
    slotSequence: slots * 4,
    slotOwner: slots * 2,
    objectKind: objects,
    objectLength: objects * 2,
    objectDomain: objects * 2,
    objectOffset: objects * 4,
    objectBase: objects * 4,
    objectRefs: objects,
    objectRefsWide: objects * 2,
    objectHashLow: objects * 4,
    objectHashHigh: objects * 4,
    arena: arenaBytes,
  };
  const sections = {} as Record<Section, [number, number]>;
  let offset = 0;
  for (const name of SECTIONS) {
    if (name === 'arena') offset = Math.ceil(offset / SEGMENT) * SEGMENT;
    sections[name] = [offset, sizes[name]];
    offset += Math.ceil(sizes[name] / PAGE) * PAGE;
  }
  // One page more: whoever reads a whole page at the last offset of the arena stays inside the mapping.
  return { sections, bytes: offset + PAGE };
}

/**
 * Objects the table holds: one a slot, as many that only others rest on (bases and clusters), and some for pages that are
 * written before their predecessor goes. What is not used costs nothing.
 */
export const objectCount = (geometry: Geometry): number => 2 * geometry.slots + 1024;
