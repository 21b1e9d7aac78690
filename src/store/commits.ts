import {
  awaitsRefinement,
  isCluster,
  Kind,
  mayJoin,
  namesDictionary,
  namesObject,
  namesTemplate,
} from '../codec/kinds.js';
import type { Dictionaries } from './dictionaries.js';
import { MAX_CLUSTER, MAX_OWNERS, OWNER_MASK } from './layout.js';
import { noFields, type Objects } from './objects.js';
import { packOf } from './packs.js';
import { MOST_NAMES } from './ref-counts.js';
import { basesIn, objectsIn } from './references.js';
import {
  baseHashWords,
  blockWords,
  DUPLICATE,
  Member,
  MEMBERS,
  memberWords,
  MISFIT,
  Result,
  type ResultRing,
} from './results.js';
import type { Tables } from './tables.js';
import { OWNER_STATS, OwnerStat, type Volatile } from './volatile.js';

/** Puts what the refine workers have made in the place of what was there. Used by the data loop only. */
export class Commits {
  private readonly fields = noFields();

  constructor(
    private readonly tables: Tables,
    private readonly objects: Objects,
    private readonly dictionaries: Dictionaries,
    private readonly shared: Volatile,
  ) {}

  /** Takes the oldest result off the ring and puts it in place, if all it rests on still holds. False: ring empty. */
  next(ring: ResultRing): boolean {
    const entry = ring.peek();
    if (entry < 0) return false;
    if (isCluster(ring.words[entry + Result.KIND])) this.commitCluster(ring, entry);
    else this.commit(ring, entry);
    ring.consume();
    return true;
  }

  private commit(ring: ResultRing, entry: number): void {
    const { tables } = this;
    const { words } = ring;
    const slot = words[entry + Result.SLOT];
    const waiting = tables.slotObject[slot];
    const kind = tables.objectKind[waiting];
    const owner = words[entry + Result.OWNER];
    const quick = words[entry + Result.KIND] === Kind.QUICK;
    // What nobody has claimed is at most made smaller, and nothing is twice.
    const permitted = owner === 0 ? quick : owner < MAX_OWNERS;
    // As long as nothing was written to the slot it is the same page, made smaller meanwhile or not.
    const current =
      tables.slotSequence[slot] === words[entry + Result.SEQUENCE] &&
      (quick ? kind === Kind.STAGED : awaitsRefinement(kind)) &&
      (tables.slotOwner[slot] & OWNER_MASK) === owner &&
      permitted;
    // Without its owner the slot can be claimed again, and so be refined again.
    if (current && !this.replace(ring, entry, slot, waiting, owner)) tables.slotOwner[slot] = 0;
  }

  /** Puts a result in the place of the page that waits; false when what it rests on is gone, or room is lacking. */
  private replace(ring: ResultRing, entry: number, slot: number, waiting: number, owner: number): boolean {
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
      // What is equal to a template's page is counted as that, be it the first or not.
      const kind = tables.objectKind[base] === Kind.TEMPLATE ? Kind.TEMPLATE : 0;
      this.count(ring, entry, kind, 0);
      return true;
    }
    if (kind === Kind.RAW) {
      // It is in the arena as it is already: a full store has no room for it twice.
      this.objects.keepAsItIs(waiting, domain);
      this.offer(ring, entry + Result.SKETCH, domain, waiting);
      this.count(ring, entry, tables.objectKind[waiting], tables.objectLength[waiting]);
      return true;
    }
    const quick = kind === Kind.QUICK;
    fields.kind = kind;
    fields.domain = quick ? 0 : domain;
    fields.length = words[entry + Result.LENGTH];
    fields.base = base;
    fields.offset = 0;
    fields.hashLow = tables.objectHashLow[waiting];
    fields.hashHigh = tables.objectHashHigh[waiting];
    const object = this.objects.make(fields, ring.payload(entry));
    if (object === 0) return false;
    this.swapIn(slot, object);
    if (quick) return true;
    if (this.objects.isBase(object)) this.offer(ring, entry + Result.SKETCH, domain, object);
    this.count(ring, entry, kind, fields.length);
    return true;
  }

  /**
   * Puts pages that were stored one by one together, if none of them was touched since. Each keeps its slot and its hash,
   * and becomes a member of the cluster. The cluster is whole before anything names it, and a page names one or the other.
   */
  private commitCluster(ring: ResultRing, entry: number): void {
    const { tables, objects, fields } = this;
    const { words } = ring;
    const count = words[entry + MEMBERS];
    const domain = tables.ownerDomains[words[entry + Result.OWNER]];
    for (let i = 0; i < count; i++) if (!this.isAsItWas(ring, entry, i, domain)) return;
    if (!this.haveBases(ring, entry, domain)) return;
    fields.kind = words[entry + Result.KIND];
    fields.domain = domain;
    fields.length = words[entry + Result.LENGTH];
    fields.base = words[entry + Result.BASE];
    // Of how many pages it was made: what is left of it is worth less and less.
    fields.hashLow = count;
    fields.hashHigh = 0;
    const cluster = objects.make(fields, ring.block(entry));
    if (cluster === 0) return;
    objects.retain(cluster);
    for (let i = 0; i < count; i++) this.join(cluster, ring, memberWords(entry, i), i, domain);
    objects.release(cluster);
  }

  private join(cluster: number, ring: ResultRing, at: number, number: number, domain: number): void {
    const { tables, objects, fields } = this;
    const object = ring.words[at + Member.OBJECT];
    fields.kind = Kind.MEMBER;
    fields.length = number;
    fields.offset = 0;
    fields.base = cluster;
    fields.hashLow = tables.objectHashLow[object];
    fields.hashHigh = tables.objectHashHigh[object];
    const member = objects.make(fields, 0);
    if (member === 0) return;
    this.swapIn(ring.words[at + Member.SLOT], member);
    if (objects.isBase(member)) this.offer(ring, at + Member.SKETCH, domain, member, object);
  }

  /** Is what a cluster rests on still there: its dictionary, or its bases? */
  private haveBases({ words }: ResultRing, entry: number, domain: number): boolean {
    const base = words[entry + Result.BASE];
    if (words[entry + Result.KIND] === Kind.CLUSTER)
      return this.dictionaries.holds(base, domain, words[entry + Result.BASE_HASH_LOW]);
    const names = blockWords(entry);
    const objects = objectsIn(base);
    for (let i = 0; i < objects; i++) {
      const hash = baseHashWords(entry, i);
      if (!this.isFit(words[names + i], domain) || !this.hasHash(words[names + i], words, hash)) return false;
    }
    // A pack that has uses is not unmapped.
    for (let i = objects; i < basesIn(base); i++)
      if (this.objects.packUses[packOf(words[names + i])] === 0) return false;
    return true;
  }

  /** Is a member's slot its owner's still, with the object that was read, which nothing else rests on? */
  private isAsItWas(ring: ResultRing, entry: number, i: number, domain: number): boolean {
    const { tables } = this;
    const { words } = ring;
    const at = memberWords(entry, i);
    const slot = words[at + Member.SLOT];
    const object = words[at + Member.OBJECT];
    return (
      tables.slotObject[slot] === object &&
      tables.slotSequence[slot] === words[at + Member.SEQUENCE] &&
      (tables.slotOwner[slot] & OWNER_MASK) === words[entry + Result.OWNER] &&
      tables.objectDomain[object] === domain &&
      tables.refs.of(object) === 1 &&
      mayJoin(tables.objectKind[object])
    );
  }

  /** Lets an object be found as a base. `instead`: what its page was until now; 0: it could not be found. */
  private offer(ring: ResultRing, sketch: number, domain: number, object: number, instead = 0): void {
    this.shared.sketches.insert(ring.words, sketch, domain, object, this.objects.bases, instead);
  }

  /**
   * Is the object that the worker built on still the same page, in the same domain, and fit for it? `at`: the word of
   * the result that names it, with the two words of its hash behind.
   */
  private stillHolds({ words }: ResultRing, entry: number, at: number, domain: number): boolean {
    const { tables } = this;
    const object = words[entry + at];
    const kind = tables.objectKind[object];
    const fit =
      words[entry + Result.KIND] === DUPLICATE
        ? kind !== Kind.FREE && !awaitsRefinement(kind) && tables.objectDomain[object] === domain
        : this.isFit(object, domain);
    return fit && tables.refs.of(object) < MOST_NAMES && this.hasHash(object, words, entry + at + 1);
  }

  /** May pages of the domain rest on it? */
  private isFit(object: number, domain: number): boolean {
    const { objectDomain, refs } = this.tables;
    // A result may name a base several times.
    return (
      this.objects.isBase(object) &&
      objectDomain[object] === domain &&
      refs.of(object) < MOST_NAMES - MAX_CLUSTER
    );
  }

  private hasHash(object: number, words: Uint32Array, at: number): boolean {
    const { objectHashLow, objectHashHigh } = this.tables;
    return objectHashLow[object] === words[at] && objectHashHigh[object] === words[at + 1];
  }

  /** `kind`: 0 for a duplicate. */
  private count({ words }: ResultRing, entry: number, kind: number, length: number): void {
    const at = words[entry + Result.OWNER] * OWNER_STATS;
    const { ownerStats } = this.shared;
    ownerStats[at + OwnerStat.PAGES]++;
    ownerStats[at + OwnerStat.BYTES_OUT] += length;
    ownerStats[at + OwnerStat.KINDS + kind]++;
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
}
