import { awaitsRefinement, Kind } from '../codec/kinds.js';
import type { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { ZstdCompressor } from '../native/zstd.js';
import { Arena } from './arena.js';
import { Commits } from './commits.js';
import { Decoder, DECODER_BYTES } from './decoder.js';
import { Dictionaries } from './dictionaries.js';
import { BLOCK, FETCHED, LOST, OWNER_MASK, SEGMENT, SOLE, Super } from './layout.js';
import { noFields, Objects } from './objects.js';
import type { PackSet } from './packs.js';
import type { ResultRing } from './results.js';
import { columnsOf, TableMemory } from './table-memory.js';
import type { Tables } from './tables.js';
import { Counter, type Volatile } from './volatile.js';

/** Workspace a store needs for itself, behind whatever its front end keeps there. */
export const STORE_BYTES = DECODER_BYTES + 2 * PAGE;

/** Objects whose entries get their memory before they are made: a page of the widest column. */
const OBJECTS_AHEAD = 1024;

export interface StoreOptions {
  /** The memory file behind the tables. */
  fd: number;
  /** Bytes of pages waiting to be refined from which new pages are compressed as they arrive; they are, too, when half of the headroom is used up. */
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
  private readonly slotMemory: TableMemory;
  private readonly objectMemory: TableMemory;
  /** The first of the objects whose entries were prepared last. */
  private objectsFrom = 0;
  private readonly compressor = new ZstdCompressor(1);
  private readonly commits: Commits;
  private readonly fields = noFields();
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
    this.commits = new Commits(tables, this.objects, this.dictionaries, shared);
    this.decoder = new Decoder(tables, packs, workspace, options.scratch);
    const slotColumns = columnsOf('slot', mapping, tables.slots);
    this.slotMemory = new TableMemory(options.fd, slotColumns, tables.slotUse, {
      mayGo: (block) => this.hasNoneLost(block),
      gone: () => this.lower(),
    });
    const objectColumns = columnsOf('object', mapping, tables.objects);
    this.objectMemory = new TableMemory(options.fd, objectColumns, tables.objectUse, {
      mayGo: () => true,
      gone: () => this.objects.lower(),
    });
    this.output = options.scratch + DECODER_BYTES;
    this.hash = this.output + PAGE;
    // libzstd takes its memory at the first page, which may come when there is none.
    const { address } = workspace;
    this.compressor.compress(address + this.output, PAGE - 1, address, PAGE);
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
    let from = 0;
    if (workspace.kernels.isSameFilled(at) === 1) {
      fields.kind = Kind.SAME;
      fields.length = 0;
      fields.offset = workspace.words[at / 4];
      fields.base = workspace.words[at / 4 + 1];
    } else from = this.stage(at);
    const object = this.objects.make(fields, from);
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
   * wait for refinement, and of those refused: written or emptied later, or somebody else's. `soleSince`: the pages were the owner's
   * alone when they went, later than that sequence; null: not known. `apart`: they are to be quick to read, and so not put together
   * with others from now on. The kernel keeps pages of zeros itself: of a slot that is empty there is nothing to note, nor of one with
   * what was nobody's before the page went.
   */
  claim(
    owner: number,
    sequence: number,
    slots: Uint32Array,
    soleSince: number | null,
    apart = false,
  ): { staged: Uint32Array; stale: Uint32Array } {
    const { tables, shared } = this;
    const domain = tables.ownerDomains[owner];
    const staged: number[] = [];
    const stale: number[] = [];
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i];
      const later = slot >= tables.slots || ((tables.slotSequence[slot] - sequence) | 0) > 0;
      const object = slot < tables.slots ? tables.slotObject[slot] : 0;
      if (object === 0 && !later) continue;
      const before = tables.slotOwner[slot];
      const owned = before !== 0 && (before & OWNER_MASK) !== owner;
      // What a former owner shared in its domain stays there, whoever has the slot now.
      const elsewhere = tables.objectDomain[object] !== 0 && tables.objectDomain[object] !== domain;
      if (later || owned || elsewhere) {
        stale.push(i);
        continue;
      }
      // A slot that has its owner already waits in the owner's queue; a write takes the owner away again.
      const sole = soleSince !== null && ((tables.slotSequence[slot] - soleSince) | 0) > 0;
      if (before === 0 && soleSince !== null && !sole) continue;
      tables.slotOwner[slot] = owner | (sole ? SOLE : before & ~OWNER_MASK);
      shared.apart.set(slot, apart);
      if (before === 0 && awaitsRefinement(tables.objectKind[object])) staged.push(i);
    }
    return { staged: Uint32Array.from(staged), stale: Uint32Array.from(stale) };
  }

  /**
   * The owner is gone; its slots are nobody's. When it has `ended` with all that descends from it, slots that were its
   * alone hold garbage and are freed at once: the kernel would tell only when a cluster of 512 is wholly free.
   */
  forget(owner: number, ended: boolean): void {
    const { slotOwner, slotUse, superblock, ownerDomains } = this.tables;
    for (let slot = slotUse.next(0); slot < superblock[Super.HIGH_SLOT]; slot = slotUse.next(slot + 1)) {
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
    const { slotOwner, slotUse, superblock } = this.tables;
    for (let slot = slotUse.next(0); slot < superblock[Super.HIGH_SLOT]; slot = slotUse.next(slot + 1)) {
      slotOwner[slot] &= ~(SOLE | FETCHED);
    }
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
    return this.commits.next(ring);
  }

  /**
   * Gives memory that is no longer needed back to the kernel, with one system call or a few; looks at `segments` of the
   * arena's. False: nothing was left.
   */
  giveBack(segments: number): boolean {
    if (this.arena.trim(1, segments) > 0) return true;
    if (this.arena.headroom === 0 && (this.slotMemory.trim() || this.objectMemory.trim())) return true;
    return this.shared.shrink(this.objects.bases);
  }

  /**
   * From now on so much memory is kept ready for pages to be written, and what tables have is kept; 0: all that is not needed goes
   * back. Call `prepare` for what is missing.
   */
  keepHeadroom(bytes: number): void {
    this.arena.headroom = Math.ceil(bytes / SEGMENT);
  }

  /** Is there less ready than was asked for? */
  get isUnprepared(): boolean {
    const { arena, objects, objectsFrom } = this;
    return (
      arena.isUnprepared || (arena.headroom > 0 && Math.abs(objects.next - objectsFrom) > OBJECTS_AHEAD / 2)
    );
  }

  /**
   * Asks the kernel for some of the memory that pages to be written will need: 64 KiB, or a little more. False: there is no room
   * for more. What slots need is not among it, for the kernel says only then which they are: a page for some 400 of them.
   */
  prepare(): boolean {
    this.objectsFrom = this.objects.next;
    this.objectMemory.populate(this.objectsFrom, OBJECTS_AHEAD);
    return !this.arena.isUnprepared || this.arena.prepare();
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
    if (object !== 0 && old === 0) tables.slotUse.take(slot);
    if (object === 0 && old !== 0) tables.slotUse.drop(slot);
    if (old !== 0) this.objects.release(old);
  }

  /** Is no slot of a block without pages marked as lost? */
  private hasNoneLost(block: number): boolean {
    const { slotOwner, slots } = this.tables;
    const end = Math.min((block + 1) * BLOCK, slots);
    for (let slot = block * BLOCK; slot < end; slot++) if (slotOwner[slot] !== 0) return false;
    return true;
  }

  /** The highest blocks of the slots' table may have no page any more: scans need not go there. */
  private lower(): void {
    const { superblock, slotUse } = this.tables;
    const high = superblock[Super.HIGH_SLOT];
    superblock[Super.HIGH_SLOT] = Math.min(high, slotUse.end(high));
  }

  /** Fills in how a page is kept as it arrives: as it is while there is room for staging, and memory. Native address of the bytes. */
  private stage(at: number): number {
    const { fields, workspace } = this;
    const from = workspace.address + at;
    fields.kind = Kind.STAGED;
    fields.length = PAGE;
    const staged = this.shared.counters[Counter.STAGED_BYTES];
    if (staged + PAGE <= this.options.stagingBytes && !this.arena.isScarce) return from;
    const output = workspace.address + this.output;
    const length = this.compressor.compress(output, PAGE - 1, from, PAGE);
    fields.kind = length > 0 ? Kind.QUICK : Kind.RAW;
    if (length <= 0) return from;
    fields.length = length;
    return output;
  }
}
