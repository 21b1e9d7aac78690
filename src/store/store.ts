import { Kind, namesDictionary, namesObject, namesTemplate } from '../codec/kinds.js';
import type { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { memcpy } from '../native/memory.js';
import { ZstdCompressor } from '../native/zstd.js';
import { Arena } from './arena.js';
import { Decoder, DECODER_BYTES } from './decoder.js';
import { Dictionaries } from './dictionaries.js';
import { FETCHED, LOST, MAX_OWNERS, OWNER_MASK, SOLE, Super } from './layout.js';
import { Objects, type ObjectFields } from './objects.js';
import type { PackSet } from './packs.js';
import { DUPLICATE, MISFIT, Result, type ResultRing } from './results.js';
import type { Tables } from './tables.js';
import { Counter, OWNER_STATS, OwnerStat, type Volatile } from './volatile.js';

/** Workspace a store needs for itself, behind whatever its front end keeps there. */
export const STORE_BYTES = DECODER_BYTES + 2 * PAGE;

export interface StoreOptions {
  /** The memory file behind the tables. */
  fd: number;
  /** Bytes of pages waiting to be refined from which new pages are compressed as they arrive. */
  stagingBytes: number;
  /** Where in the workspace the store's STORE_BYTES are. */
  scratch: number;
}

/**
 * The page store, as the data loop sees it: pages go in and out at offsets of the loop's workspace. Nothing here
 * allocates on the JS heap once it is made. What is written is in the memory file, reachable from its slot, before
 * `write` returns; every intermediate state is one that `recover` understands.
 */
export class Store {
  readonly arena: Arena;
  readonly objects: Objects;
  readonly dictionaries: Dictionaries;
  readonly decoder: Decoder;
  private readonly compressor = new ZstdCompressor(1);
  private readonly fields: ObjectFields = {
    kind: 0,
    domain: 0,
    length: 0,
    offset: 0,
    base: 0,
    hashLow: 0,
    hashHigh: 0,
  };
  private readonly output: number;
  private readonly hash: number;

  constructor(
    readonly tables: Tables,
    private readonly shared: Volatile,
    packs: PackSet,
    private readonly workspace: Workspace,
    private readonly options: StoreOptions,
  ) {
    const { arenaFileOffset, arenaAddress, mapping } = tables;
    this.arena = new Arena(options.fd, arenaFileOffset, arenaAddress, mapping.geometry.arenaBytes);
    this.dictionaries = new Dictionaries(tables, options.fd);
    this.objects = new Objects(tables, this.arena, this.dictionaries, shared);
    this.decoder = new Decoder(tables, packs, workspace, options.scratch);
    this.output = options.scratch + DECODER_BYTES;
    this.hash = this.output + PAGE;
  }

  /**
   * Stores the page at `at`. False when the store is full: then the slot is empty, for what it had before belonged to
   * whoever had the slot before. See `refuse`.
   */
  write(slot: number, at: number): boolean {
    const { workspace, shared, fields } = this;
    workspace.kernels.xxh64(at, this.hash);
    fields.hashLow = workspace.words[this.hash / 4];
    fields.hashHigh = workspace.words[this.hash / 4 + 1];
    fields.domain = 0;
    fields.base = 0;
    fields.kind = Kind.STAGED;
    if (workspace.kernels.isSameFilled(at) === 1) {
      fields.kind = Kind.SAME;
      fields.length = 0;
      fields.offset = workspace.words[at / 4];
      fields.base = workspace.words[at / 4 + 1];
    }
    const object = fields.kind === Kind.SAME || this.place(at) ? this.create() : 0;
    this.assign(slot, object);
    this.tables.slotOwner[slot] = 0;
    if (object === 0) return false;
    shared.counters[Counter.WRITES]++;
    return true;
  }

  /** The kernel is told that none of these slots was written, and keeps all their pages: they are empty from now on. */
  refuse(first: number, count: number): void {
    this.discard(first, count);
    this.shared.counters[Counter.REFUSED] += count;
  }

  /**
   * Brings the slot's page to `at`; zeros for a slot never written. False when the page is damaged, or was freed
   * although somebody has it.
   */
  read(slot: number, at: number): boolean {
    const { slotObject, slotOwner } = this.tables;
    this.shared.counters[Counter.READS]++;
    const object = slotObject[slot];
    if (object === 0 && slotOwner[slot] !== LOST) {
      this.workspace.bytes.fill(0, at, at + PAGE);
      return true;
    }
    if ((slotOwner[slot] & SOLE) !== 0) slotOwner[slot] |= FETCHED;
    if (object !== 0 && this.decoder.read(object, at)) return true;
    this.shared.counters[Counter.CORRUPT]++;
    this.shared.counters[Counter.CORRUPT_SLOT] = slot;
    return false;
  }

  /** Frees `count` slots from `first` on. */
  discard(first: number, count: number): void {
    const { tables } = this;
    const end = Math.min(first + count, tables.superblock[Super.HIGH_SLOT]);
    for (let slot = first; slot < end; slot++) {
      tables.slotOwner[slot] = 0;
      if (tables.slotObject[slot] === 0) continue;
      this.assign(slot, 0);
      this.shared.counters[Counter.DISCARDS]++;
    }
  }

  /**
   * Notes that `owner` owns these slots as they were at `sequence`. Returns the indexes of those that now begin to
   * wait for refinement, and how many were refused: written later, or somebody else's. `soleSince`: pages written later
   * than that sequence were the owner's alone when they went; null: not known.
   */
  claim(
    owner: number,
    sequence: number,
    slots: Uint32Array,
    soleSince: number | null,
  ): { staged: Uint32Array; stale: number } {
    const { tables } = this;
    const domain = tables.ownerDomains[owner];
    const indexes = new Uint32Array(slots.length);
    let staged = 0;
    let stale = 0;
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i];
      const object = slot < tables.slots ? tables.slotObject[slot] : 0;
      const later = object === 0 || ((tables.slotSequence[slot] - sequence) | 0) > 0;
      const before = tables.slotOwner[slot];
      const owned = before !== 0 && (before & OWNER_MASK) !== owner;
      // What a former owner shared in its domain stays there, whoever has the slot now.
      const elsewhere = tables.objectDomain[object] !== 0 && tables.objectDomain[object] !== domain;
      if (later || owned || elsewhere) {
        stale++;
        continue;
      }
      // A slot that has its owner already waits in the owner's queue; a write takes the owner away again.
      const sole = soleSince !== null && ((tables.slotSequence[slot] - soleSince) | 0) > 0;
      tables.slotOwner[slot] = owner | (sole ? SOLE : before & ~OWNER_MASK);
      if (before === 0 && tables.objectKind[object] === Kind.STAGED) indexes[staged++] = i;
    }
    return { staged: indexes.slice(0, staged), stale };
  }

  /**
   * The owner is gone; its slots are nobody's. When it has `ended` with all that descends from it, slots that were its
   * alone hold garbage and are freed at once: the kernel would tell only when a cluster of 512 is wholly free.
   */
  forget(owner: number, ended: boolean): void {
    const { slotOwner, superblock, ownerDomains } = this.tables;
    for (let slot = 0; slot < superblock[Super.HIGH_SLOT]; slot++) {
      if ((slotOwner[slot] & OWNER_MASK) !== owner) continue;
      if (ended && (slotOwner[slot] & SOLE) !== 0) this.lose(slot);
      else slotOwner[slot] = 0;
    }
    const domain = ownerDomains[owner];
    if (!ownerDomains.some((of, other) => of === domain && other !== owner)) this.dictionaries.retire(domain);
  }

  /**
   * First step to free slots that nobody has any more: notes from now on which of them are read, for a page that is read
   * may be in memory, clean, without an entry that names its slot. Returns the sequence of now.
   */
  watch(owner: number, slots: Uint32Array): number {
    const { slotOwner, superblock } = this.tables;
    for (const slot of slots) if (this.isSole(slot, owner)) slotOwner[slot] &= ~FETCHED;
    return superblock[Super.SEQUENCE];
  }

  /** Second step: frees those that are the owner's alone and were neither written nor read since. Returns how many. */
  free(owner: number, sequence: number, slots: Uint32Array): number {
    const { slotOwner, slotSequence } = this.tables;
    let freed = 0;
    for (const slot of slots) {
      const later = ((slotSequence[slot] - sequence) | 0) > 0;
      if (later || !this.isSole(slot, owner) || (slotOwner[slot] & FETCHED) !== 0) continue;
      this.lose(slot);
      freed++;
    }
    return freed;
  }

  /** No owner may take a slot for its own alone any longer: who had the pages meanwhile was not seen. */
  doubtSole(): void {
    const { slotOwner, superblock } = this.tables;
    for (let slot = 0; slot < superblock[Super.HIGH_SLOT]; slot++) slotOwner[slot] &= ~(SOLE | FETCHED);
  }

  private isSole(slot: number, owner: number): boolean {
    const { slotObject, slotOwner, slots } = this.tables;
    if (slot >= slots || slotObject[slot] === 0) return false;
    return (slotOwner[slot] & SOLE) !== 0 && (slotOwner[slot] & OWNER_MASK) === owner;
  }

  private lose(slot: number): void {
    this.assign(slot, 0);
    this.tables.slotOwner[slot] = LOST;
    this.shared.counters[Counter.FREED]++;
  }

  /** Takes the oldest result off the ring and puts it in place, if all it rests on still holds. False: ring empty. */
  commitNext(ring: ResultRing): boolean {
    const entry = ring.peek();
    if (entry < 0) return false;
    this.commit(ring, entry);
    ring.consume();
    return true;
  }

  private commit(ring: ResultRing, entry: number): void {
    const { tables } = this;
    const { words } = ring;
    const slot = words[entry + Result.SLOT];
    const staged = words[entry + Result.STAGED];
    const owner = words[entry + Result.OWNER];
    const current =
      tables.slotObject[slot] === staged &&
      tables.slotSequence[slot] === words[entry + Result.SEQUENCE] &&
      tables.objectKind[staged] === Kind.STAGED &&
      (tables.slotOwner[slot] & OWNER_MASK) === owner &&
      owner !== 0 &&
      owner < MAX_OWNERS;
    // Without its owner the slot can be claimed again, and so be refined again.
    if (current && !this.replace(ring, entry, slot, staged, owner)) tables.slotOwner[slot] = 0;
  }

  /** Puts a result in the place of the staged page; false when what it rests on is gone, or room is lacking. */
  private replace(ring: ResultRing, entry: number, slot: number, staged: number, owner: number): boolean {
    const { tables, fields } = this;
    const { words } = ring;
    const domain = tables.ownerDomains[owner];
    const kind = words[entry + Result.KIND] & ~MISFIT;
    const base = words[entry + Result.BASE];
    if ((kind === DUPLICATE || namesObject(kind)) && !this.stillHolds(ring, entry, Result.BASE, domain))
      return false;
    if (kind === Kind.PAIR && !this.stillHolds(ring, entry, Result.SECOND, domain)) return false;
    const version = words[entry + Result.BASE_HASH_LOW];
    if (namesDictionary(kind) && !this.dictionaries.holds(base, domain, version)) return false;
    if (kind === DUPLICATE) {
      this.swapIn(slot, base);
      this.count(ring, entry, 0);
      return true;
    }
    if (kind === Kind.RAW) {
      // It is in the arena as it is already: a full store has no room for it twice.
      this.objects.keepRaw(staged, domain);
      this.offer(ring, entry, domain, staged);
      this.count(ring, entry, PAGE);
      return true;
    }
    fields.kind = kind;
    fields.domain = domain;
    fields.length = words[entry + Result.LENGTH];
    fields.base = base;
    fields.offset = 0;
    fields.hashLow = tables.objectHashLow[staged];
    fields.hashHigh = tables.objectHashHigh[staged];
    if (fields.length > 0 && !this.copyIn(ring.payload(entry))) return false;
    const object = this.create();
    if (object === 0) return false;
    this.swapIn(slot, object);
    if (this.objects.isBase(object)) this.offer(ring, entry, domain, object);
    this.count(ring, entry, fields.length);
    return true;
  }

  /** Lets an object be found as a base. */
  private offer(ring: ResultRing, entry: number, domain: number, object: number): void {
    this.shared.sketches.insert(ring.words, entry + Result.SKETCH, domain, object, this.objects.bases);
  }

  /**
   * Is the object that the worker built on still the same page, in the same domain, and fit for it? `at`: the word of
   * the result that names it, with the two words of its hash behind.
   */
  private stillHolds(ring: ResultRing, entry: number, at: number, domain: number): boolean {
    const { tables } = this;
    const { words } = ring;
    const object = words[entry + at];
    const kind = tables.objectKind[object];
    const fit =
      words[entry + Result.KIND] === DUPLICATE
        ? kind !== Kind.FREE && kind !== Kind.STAGED
        : this.objects.isBase(object);
    return (
      fit &&
      tables.objectDomain[object] === domain &&
      tables.objectHashLow[object] === words[entry + at + 1] &&
      tables.objectHashHigh[object] === words[entry + at + 2]
    );
  }

  private count({ words }: ResultRing, entry: number, length: number): void {
    const kind = words[entry + Result.KIND] & ~MISFIT;
    const at = words[entry + Result.OWNER] * OWNER_STATS;
    const { ownerStats } = this.shared;
    ownerStats[at + OwnerStat.PAGES]++;
    ownerStats[at + OwnerStat.BYTES_OUT] += length;
    ownerStats[at + OwnerStat.KINDS + (kind === DUPLICATE ? 0 : kind)]++;
    if ((words[entry + Result.KIND] & MISFIT) !== 0) ownerStats[at + OwnerStat.MISFITS]++;
    if (!namesObject(kind) && !namesTemplate(kind)) return;
    ownerStats[at + OwnerStat.DELTAS]++;
    ownerStats[at + OwnerStat.DELTA_BYTES] += length;
  }

  /** Same page, other encoding: the slot's sequence and owner stay. */
  private swapIn(slot: number, object: number): void {
    const old = this.tables.slotObject[slot];
    this.objects.retain(object);
    Atomics.store(this.tables.slotObject, slot, object);
    this.objects.release(old);
  }

  /** Gives a slot another page (0: none) and a new sequence. */
  private assign(slot: number, object: number): void {
    const { tables } = this;
    const old = tables.slotObject[slot];
    if (object !== 0) this.objects.retain(object);
    if (slot >= tables.superblock[Super.HIGH_SLOT]) tables.superblock[Super.HIGH_SLOT] = slot + 1;
    const sequence = (tables.superblock[Super.SEQUENCE] + 1) >>> 0;
    tables.slotSequence[slot] = sequence;
    Atomics.store(tables.slotObject, slot, object);
    Atomics.store(tables.superblock, Super.SEQUENCE, sequence);
    if (old !== 0) this.objects.release(old);
  }

  /** The object of `fields`, whose block is already taken; 0 when the table is full, and the block is free again. */
  private create(): number {
    const { fields } = this;
    const object = this.objects.create(fields);
    if (object === 0 && fields.length > 0) this.arena.free(fields.offset, fields.length);
    return object;
  }

  /** Puts a page's bytes into the arena, as they are while there is room for staging. */
  private place(at: number): boolean {
    const { fields } = this;
    const full = this.shared.counters[Counter.STAGED_BYTES] + PAGE > this.options.stagingBytes;
    let from = this.workspace.address + at;
    fields.kind = Kind.STAGED;
    fields.length = PAGE;
    if (full) {
      const output = this.workspace.address + this.output;
      const length = this.compressor.compress(output, PAGE - 1, from, PAGE);
      fields.kind = length > 0 ? Kind.ZSTD : Kind.RAW;
      if (length > 0) {
        fields.length = length;
        from = output;
      }
    }
    return this.copyIn(from);
  }

  /** Copies `fields.length` bytes into a new block and sets `fields.offset`; false when the arena is full. */
  private copyIn(from: number): boolean {
    const { fields } = this;
    const unit = this.arena.allocate(fields.length);
    if (unit < 0) return false;
    memcpy(this.tables.arenaAddress + unit * 16, from, fields.length);
    fields.offset = unit;
    return true;
  }
}
