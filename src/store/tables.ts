import { AgentZipError } from '../errors.js';
import { fstatSync } from 'node:fs';
import { ftruncate } from '../native/files.js';
import {
  addressOf,
  MAP_NORESERVE,
  MAP_SHARED,
  memcpy,
  mmap,
  munmap,
  PROT_READ,
  PROT_WRITE,
  reserveWords,
  view,
} from '../native/memory.js';
import { PAGE } from '../native/libc.js';
import {
  DICTIONARY_BYTES,
  FORMAT_VERSION,
  layout,
  MAGIC,
  MAX_DOMAINS,
  MAX_OWNERS,
  MAX_PACKS,
  objectCount,
  SEGMENT,
  Super,
  type Geometry,
  type Section,
} from './layout.js';
import { NameTable } from './names.js';
import { RefCounts } from './ref-counts.js';
import { TableUse } from './table-use.js';

/** Where a thread finds the mapped store of its process. */
export interface StoreMapping {
  address: number;
  geometry: Geometry;
}

/**
 * The store's memory file as typed arrays. Every thread has its own Tables over the same bytes; only the data loop
 * writes slots and objects, only the control thread writes names.
 */
export class Tables {
  readonly superblock: Uint32Array;
  readonly ownerDomains: Uint16Array;
  readonly owners: NameTable;
  readonly domains: NameTable;
  readonly packs: NameTable;
  /** See Dictionaries. */
  readonly dictionaryDomain: Uint16Array;
  readonly dictionaryVersion: Uint32Array;
  readonly dictionaryLength: Uint32Array;
  readonly dictionaryOpen: Uint8Array;
  readonly slotUse: TableUse;
  readonly objectUse: TableUse;
  readonly slotObject: Uint32Array;
  readonly slotSequence: Uint32Array;
  readonly slotOwner: Uint16Array;
  readonly objectKind: Uint8Array;
  readonly objectLength: Uint16Array;
  readonly objectDomain: Uint16Array;
  readonly objectOffset: Uint32Array;
  readonly objectBase: Uint32Array;
  readonly refs: RefCounts;
  readonly objectHashLow: Uint32Array;
  readonly objectHashHigh: Uint32Array;
  /** Native address of the arena, and its offset in the memory file. */
  readonly arenaAddress: number;
  readonly arenaFileOffset: number;
  /** Where the dictionaries' bytes are in the memory file. */
  readonly dictionaryFileOffset: number;
  readonly objects: number;
  private readonly head = reserveWords(1);
  private readonly headAddress = addressOf(this.head);

  constructor(readonly mapping: StoreMapping) {
    const { sections } = layout(mapping.geometry);
    const part = (name: Section): ArrayBuffer => view(mapping.address + sections[name][0], sections[name][1]);
    this.superblock = new Uint32Array(part('superblock'));
    this.ownerDomains = new Uint16Array(part('ownerDomains'));
    this.owners = new NameTable(new Uint8Array(part('ownerNames')), MAX_OWNERS);
    this.domains = new NameTable(new Uint8Array(part('domainNames')), MAX_DOMAINS);
    this.packs = new NameTable(new Uint8Array(part('packNames')), MAX_PACKS + 1);
    this.dictionaryDomain = new Uint16Array(part('dictionaryDomain'));
    this.dictionaryVersion = new Uint32Array(part('dictionaryVersion'));
    this.dictionaryLength = new Uint32Array(part('dictionaryLength'));
    this.dictionaryOpen = new Uint8Array(part('dictionaryOpen'));
    this.dictionaryFileOffset = sections.dictionaryBytes[0];
    this.slotUse = new TableUse(new Uint16Array(part('usedSlots')), new Uint8Array(part('touchedSlots')));
    this.objectUse = new TableUse(
      new Uint16Array(part('usedObjects')),
      new Uint8Array(part('touchedObjects')),
    );
    this.slotObject = new Uint32Array(part('slotObject'));
    this.slotSequence = new Uint32Array(part('slotSequence'));
    this.slotOwner = new Uint16Array(part('slotOwner'));
    this.objectKind = new Uint8Array(part('objectKind'));
    this.objectLength = new Uint16Array(part('objectLength'));
    this.objectDomain = new Uint16Array(part('objectDomain'));
    this.objectOffset = new Uint32Array(part('objectOffset'));
    this.objectBase = new Uint32Array(part('objectBase'));
    this.refs = new RefCounts(new Uint8Array(part('objectRefs')), new Uint16Array(part('objectRefsWide')));
    this.objectHashLow = new Uint32Array(part('objectHashLow'));
    this.objectHashHigh = new Uint32Array(part('objectHashHigh'));
    this.arenaAddress = mapping.address + sections.arena[0];
    this.arenaFileOffset = sections.arena[0];
    this.objects = objectCount(mapping.geometry);
  }

  /** Bytes of a dictionary's place; `dictionaryLength` of them are its own. */
  dictionaryBytes(number: number): Uint8Array {
    return new Uint8Array(view(this.dictionaryAddress(number), DICTIONARY_BYTES));
  }

  dictionaryAddress(number: number): number {
    return this.mapping.address + this.dictionaryFileOffset + number * DICTIONARY_BYTES;
  }

  get slots(): number {
    return this.mapping.geometry.slots;
  }

  /**
   * Native address of an object's bytes. Offsets count 16-byte units. A thread that looks while the object is being
   * replaced may find any number there: it is kept inside the arena, whatever it is.
   */
  addressOf(object: number): number {
    const offset = this.objectOffset[object] * 16;
    return this.arenaAddress + (offset < this.mapping.geometry.arenaBytes ? offset : 0);
  }

  /** Name of a pair's second base. */
  secondBase(object: number): number {
    return this.headWord(object, 0);
  }

  /** One of the words with which an object's block begins. */
  headWord(object: number, word: number): number {
    memcpy(this.headAddress, this.addressOf(object) + 4 * word, 4);
    return this.head[0];
  }
}

const map = (fd: number, bytes: number): number =>
  mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd);

/** Makes an empty memory file into a store. */
export function formatStore(fd: number, geometry: Geometry): StoreMapping {
  const { bytes } = layout(geometry);
  ftruncate(fd, bytes);
  const mapping = { address: map(fd, bytes), geometry };
  const superblock = new Uint32Array(view(mapping.address, PAGE));
  superblock[Super.SLOTS] = geometry.slots;
  superblock[Super.ARENA_SEGMENTS] = geometry.arenaBytes / SEGMENT;
  superblock[Super.HIGH_OBJECT] = 1;
  superblock[Super.VERSION] = FORMAT_VERSION;
  superblock[Super.MAGIC] = MAGIC;
  return mapping;
}

/** Maps a store made by an earlier process. AZ_STORE_FORMAT when it is none of ours. */
export function openStore(fd: number): StoreMapping {
  const probe = map(fd, PAGE);
  const superblock = new Uint32Array(view(probe, PAGE)).slice();
  munmap(probe, PAGE);
  const refuse = (reason: string) =>
    new AgentZipError('AZ_STORE_FORMAT', { what: `descriptor ${fd}`, reason });
  if (superblock[Super.MAGIC] !== MAGIC) throw refuse('it is no store');
  if (superblock[Super.VERSION] !== FORMAT_VERSION) {
    throw refuse(`its format is ${superblock[Super.VERSION]}, this version reads ${FORMAT_VERSION}`);
  }
  const geometry = {
    slots: superblock[Super.SLOTS],
    arenaBytes: superblock[Super.ARENA_SEGMENTS] * SEGMENT,
  };
  const { bytes } = layout(geometry);
  if (fstatSync(fd).size !== bytes) throw refuse('its size does not fit its header');
  return { address: map(fd, bytes), geometry };
}
