import { canBeBase, hasBlock, isIndexed, Kind, namesDictionary } from '../codec/kinds.js';
import { memcpy } from '../native/memory.js';
import type { Arena } from './arena.js';
import { DEPTH, depthOf } from './chains.js';
import type { Dictionaries } from './dictionaries.js';
import { FreeSet } from './free-set.js';
import { Super } from './layout.js';
import { packOf } from './packs.js';
import { objectBaseAt, objectBases, templateBaseAt, templateBases } from './references.js';
import type { Tables } from './tables.js';
import { Counter, type Volatile } from './volatile.js';

/** What an object is made from. Reused for each object: the request loop allocates nothing. */
export interface ObjectFields {
  kind: number;
  domain: number;
  length: number;
  /** Arena offset in 16-byte units; for SAME the low half of the word. */
  offset: number;
  /** Base object, template reference or dictionary; for SAME the high half of the word. */
  base: number;
  hashLow: number;
  hashHigh: number;
}

export const noFields = (): ObjectFields => ({
  ...{ kind: 0, domain: 0, length: 0, offset: 0, base: 0, hashLow: 0, hashHigh: 0 },
});

/** The object table: makes, counts and frees objects. Used by the data loop only. */
export class Objects {
  /** Objects that name each pack; a pack in use must stay. */
  readonly packUses = new Uint32Array(256);
  /** Objects that may be bases: as many as the sketch index should hold. */
  bases = 0;
  /** Numbers below HIGH_OBJECT that are no object's. */
  private readonly free: FreeSet;
  /** Where the last compaction stopped. */
  private cursor = 0;

  constructor(
    private readonly tables: Tables,
    private readonly arena: Arena,
    private readonly dictionaries: Dictionaries,
    private readonly shared: Volatile,
  ) {
    this.free = new FreeSet(tables.objects);
  }

  /**
   * A new object with no references yet, or 0 when arena or table are full. One that has a block gets `fields.length`
   * bytes from the native address `from` into it.
   */
  make(fields: ObjectFields, from: number): number {
    if (!hasBlock(fields.kind)) return this.create(fields);
    const unit = this.arena.allocate(fields.length);
    if (unit < 0) return 0;
    memcpy(this.tables.arenaAddress + unit * 16, from, fields.length);
    fields.offset = unit;
    const object = this.create(fields);
    if (object === 0) this.arena.free(unit, fields.length);
    return object;
  }

  /** Number of the object that is made next, unless the table is full. */
  get next(): number {
    const free = this.free.lowest();
    return free > 0 ? free : this.tables.superblock[Super.HIGH_OBJECT];
  }

  private create(fields: ObjectFields): number {
    const { tables } = this;
    const object = this.next;
    if (object >= tables.objects) return 0;
    if (object === tables.superblock[Super.HIGH_OBJECT]) tables.superblock[Super.HIGH_OBJECT] = object + 1;
    else this.free.delete(object);
    tables.objectUse.take(object);
    tables.objectHashLow[object] = fields.hashLow;
    tables.objectHashHigh[object] = fields.hashHigh;
    tables.objectDomain[object] = fields.domain;
    tables.objectLength[object] = fields.length;
    tables.objectOffset[object] = fields.offset;
    tables.objectBase[object] = fields.base;
    tables.refs.clear(object);
    tables.objectKind[object] = fields.kind;
    const bases = objectBases(tables, object);
    for (let i = 0; i < bases; i++) this.retain(objectBaseAt(tables, object, i));
    this.admit(object);
    return object;
  }

  retain(object: number): void {
    this.tables.refs.add(object);
  }

  /** One that waited for refinement is kept as it is, in `domain`, and can be found and built on from now on. */
  keepAsItIs(object: number, domain: number): void {
    const { tables } = this;
    const raw = tables.objectKind[object] === Kind.STAGED;
    if (raw) this.shared.counters[Counter.STAGED_BYTES] -= tables.objectLength[object];
    // Its domain first: a crash between the two leaves a page that waits, which may be anything's.
    tables.objectDomain[object] = domain;
    tables.objectKind[object] = raw ? Kind.RAW : Kind.ZSTD;
    this.admit(object);
  }

  /** Takes one reference away; the last one frees the object, and the references to its bases with it. */
  release(object: number): void {
    const { tables } = this;
    if (tables.refs.drop(object) > 0) return;
    const kind = tables.objectKind[object];
    if (this.isBase(object)) this.bases--;
    if (isIndexed(kind)) this.shared.hashes.remove(object);
    if (kind === Kind.STAGED) this.shared.counters[Counter.STAGED_BYTES] -= tables.objectLength[object];
    if (namesDictionary(kind)) this.dictionaries.release(tables.objectBase[object]);
    this.usePacks(object, -1);
    // Names of bases stand in the block, so that it goes last.
    const bases = objectBases(tables, object);
    for (let i = 0; i < bases; i++) this.release(objectBaseAt(tables, object, i));
    if (hasBlock(kind)) this.arena.free(tables.objectOffset[object], tables.objectLength[object]);
    tables.objectUse.drop(object);
    this.letGo(object);
  }

  /** May deltas be made against it? */
  isBase(object: number): boolean {
    return canBeBase(this.tables.objectKind[object]) && depthOf(this.tables, object) < DEPTH;
  }

  /** Enters an object into the counts and the index; also for each survivor of a restart. */
  admit(object: number): void {
    const kind = this.tables.objectKind[object];
    if (kind === Kind.STAGED) this.shared.counters[Counter.STAGED_BYTES] += this.tables.objectLength[object];
    if (namesDictionary(kind)) this.dictionaries.retain(this.tables.objectBase[object]);
    this.usePacks(object, 1);
    if (this.isBase(object)) this.bases++;
    if (isIndexed(kind)) this.shared.hashes.insert(object);
  }

  /** Takes in an object that outlived a restart, with its references counted, or frees it when it has none. */
  readmit(object: number): void {
    const { tables } = this;
    if (tables.refs.of(object) === 0) return this.letGo(object);
    tables.objectUse.take(object);
    if (hasBlock(tables.objectKind[object])) {
      this.arena.reserve(tables.objectOffset[object], tables.objectLength[object]);
    }
    this.admit(object);
  }

  /**
   * Moves objects out of nearly empty segments, so that these go back to the kernel: looks at `limit` objects a call, a turn of
   * housekeeping, and goes on where the last call ended. A worker that reads an object meanwhile finds other bytes than its hash.
   */
  compact(limit: number): void {
    const { tables } = this;
    this.arena.age();
    const high = tables.superblock[Super.HIGH_OBJECT];
    for (let looked = Math.min(limit, high); looked > 0; looked--) {
      this.cursor = tables.objectUse.next(this.cursor + 1);
      if (this.cursor >= high) this.cursor = tables.objectUse.next(0);
      const object = this.cursor;
      const kind = tables.objectKind[object];
      if (!hasBlock(kind)) continue;
      const length = tables.objectLength[object];
      const old = tables.objectOffset[object];
      const unit = this.arena.relocate(old, length);
      if (unit < 0) continue;
      memcpy(tables.arenaAddress + unit * 16, tables.arenaAddress + old * 16, length);
      // The copy is whole before the object names it: a crash at any point leaves one of the two.
      Atomics.store(tables.objectOffset, object, unit);
      this.arena.free(old, length);
    }
  }

  /** The highest blocks of the table may have no object any more: scans need not go there. */
  lower(): void {
    const { superblock, objectUse } = this.tables;
    const high = superblock[Super.HIGH_OBJECT];
    const end = Math.max(1, objectUse.end(high));
    for (let object = end; object < high; object++) this.free.delete(object);
    superblock[Super.HIGH_OBJECT] = Math.min(high, end);
  }

  /** Counts an object's template pages in, or out. */
  private usePacks(object: number, by: 1 | -1): void {
    const count = templateBases(this.tables, object);
    for (let i = 0; i < count; i++) this.packUses[packOf(templateBaseAt(this.tables, object, i))] += by;
  }

  private letGo(object: number): void {
    this.tables.objectKind[object] = Kind.FREE;
    this.free.add(object);
  }
}
