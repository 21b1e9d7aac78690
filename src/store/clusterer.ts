import { hasBlock, Kind, mayJoin } from '../codec/kinds.js';
import { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { memcpy } from '../native/memory.js';
import { digestMaker, ZstdCompressor } from '../native/zstd.js';
import { blockBytes, MAX_BLOCK } from './size-classes.js';
import { ClusterGroup } from './cluster-group.js';
import { Decoder, DECODER_BYTES } from './decoder.js';
import { digestOf, openDictionary } from './dictionaries.js';
import { Digests } from './digests.js';
import { MAX_CLUSTER, OWNER_MASK, Super } from './layout.js';
import type { PackSet } from './packs.js';
import { isKeptForOne, MAX_CLUSTER_BASES, objectBaseAt, objectBases, templateBases } from './references.js';
import {
  baseHashWords,
  Member,
  MEMBER_WORDS,
  MEMBERS,
  memberWords,
  Result,
  type ResultRing,
} from './results.js';
import type { SlotSet } from './slot-set.js';
import type { Tables } from './tables.js';

/** Fewer pages gain too little. */
const LEAST = 2;
/** What a cluster takes over what its pages took; above it nothing changes. */
const WORTH = 0.95;
/** Level for pages that rest. */
const LEVEL = 9;
/** Pages of a cluster with bases: these must be decoded too when one of its pages is read. */
const BASED_PAGES = 4;

/** Pages of a pass between two looks at what else is to be done: some 7 ms. Their clusters fit in a ring of results. */
export const PASS_PAGES = 64;

const CLUSTER_BYTES = MAX_CLUSTER * PAGE;
const AT = {
  alone: 0,
  based: CLUSTER_BYTES,
  check: 2 * CLUSTER_BYTES,
  prefix: 3 * CLUSTER_BYTES,
  output: 3 * CLUSTER_BYTES + MAX_CLUSTER_BASES * PAGE,
  sketch: 3 * CLUSTER_BYTES + MAX_CLUSTER_BASES * PAGE + MAX_BLOCK,
  decoder: 3 * CLUSTER_BYTES + MAX_CLUSTER_BASES * PAGE + MAX_BLOCK + PAGE,
};

/** Whose pages are to be put together, and which: those that were not written after a sequence. */
export interface ClusterTask {
  owner: number;
  domain: number;
  before: number;
}

/**
 * Puts pages together that have rested for a while: neighbours in one frame take less than each by itself. Those without
 * a base share the domain's dictionary, the others all their bases. As a refiner it only reads the store; the data loop
 * verifies what it proposes.
 */
export class Clusterer {
  private readonly workspace = new Workspace(AT.decoder + DECODER_BYTES);
  private readonly compressor: ZstdCompressor;
  private readonly dictionaries: Digests;
  private readonly decoder: Decoder;
  private readonly alone = new ClusterGroup(AT.alone, MAX_CLUSTER);
  private readonly based = new ClusterGroup(AT.based, BASED_PAGES);
  /** By slot a mark of the write that was tried in vain: 0 for none. */
  private readonly tried: Uint8Array;

  constructor(
    private readonly tables: Tables,
    private readonly packs: PackSet,
    private readonly ring: ResultRing,
    private readonly apart: SlotSet,
    level: number,
  ) {
    this.compressor = new ZstdCompressor(Math.max(level, LEVEL));
    this.dictionaries = new Digests(digestMaker(Math.max(level, LEVEL)));
    this.decoder = new Decoder(tables, packs, this.workspace, AT.decoder);
    this.tried = new Uint8Array(tables.slots);
  }

  /**
   * Looks at the owner's slots from `from` on, in the order in which the kernel gave them out, which is that of addresses
   * by and large, and proposes clusters of at most `limit` pages in all, for as long as `goesOn`. The slot to go on at; -1:
   * all were looked at.
   */
  pass(task: ClusterTask, from: number, limit: number, goesOn: () => boolean): number {
    const { tables, alone, based } = this;
    const high = tables.superblock[Super.HIGH_SLOT];
    alone.clear();
    based.clear();
    let left = limit;
    let next = -1;
    const { slotUse } = tables;
    for (let slot = slotUse.next(from); slot < high; slot = slotUse.next(slot + 1)) {
      if (!this.rests(slot, task)) continue;
      const group = this.groupOf(tables.slotObject[slot]);
      if (group.count === 0 && !goesOn()) return slot;
      if (left-- === 0) {
        next = slot;
        break;
      }
      this.add(slot, group, task);
    }
    this.propose(alone, task);
    this.propose(based, task);
    return next;
  }

  /** Is it a page that may be slower to read, that nothing else rests on, and not one of a cluster of which much is left? */
  private rests(slot: number, { owner, domain, before }: ClusterTask): boolean {
    const { tables } = this;
    if ((tables.slotOwner[slot] & OWNER_MASK) !== owner || this.apart.has(slot)) return false;
    const sequence = tables.slotSequence[slot];
    if (((sequence - before) | 0) > 0 || this.tried[slot] === markOf(sequence)) return false;
    const object = tables.slotObject[slot];
    const kind = tables.objectKind[object];
    if (!mayJoin(kind) || tables.refs.of(object) !== 1 || tables.objectDomain[object] !== domain)
      return false;
    return kind !== Kind.MEMBER || 2 * this.left(object) <= tables.objectHashLow[tables.objectBase[object]];
  }

  /** Members that the cluster of this one still has. */
  private left(member: number): number {
    return this.tables.refs.of(this.tables.objectBase[member]);
  }

  /** With which others a page is put together. */
  private groupOf(object: number): ClusterGroup {
    const { objectKind, objectBase } = this.tables;
    const kind = objectKind[object];
    const isBased =
      kind === Kind.MEMBER
        ? objectKind[objectBase[object]] === Kind.BASED_CLUSTER
        : this.restsOnOthers(object);
    return isBased ? this.based : this.alone;
  }

  /** Has a page that is in no cluster a base that stays when it is put together with others? */
  private restsOnOthers(object: number): boolean {
    const { tables } = this;
    for (let i = 0, all = objectBases(tables, object); i < all; i++)
      if (!isKeptForOne(tables, objectBaseAt(tables, object, i))) return true;
    return templateBases(tables, object) > 0;
  }

  /** Bytes that go when a page is put together with others: its own, and those of bases that are kept for it alone. */
  private takenBy(object: number): number {
    const { tables } = this;
    if (tables.objectKind[object] === Kind.MEMBER)
      return blockBytes(tables.objectLength[tables.objectBase[object]]) / Math.max(1, this.left(object));
    let bytes = blockBytes(tables.objectLength[object]);
    for (let i = 0, all = objectBases(tables, object); i < all; i++) {
      const base = objectBaseAt(tables, object, i);
      if (isKeptForOne(tables, base) && hasBlock(tables.objectKind[base]))
        bytes += blockBytes(tables.objectLength[base]);
    }
    return bytes;
  }

  private add(slot: number, group: ClusterGroup, task: ClusterTask): void {
    const { tables, workspace } = this;
    const sequence = tables.slotSequence[slot];
    const object = tables.slotObject[slot];
    if (group === this.based && !group.addBases(tables, object)) {
      this.propose(group, task);
      if (!group.addBases(tables, object)) return;
    }
    const page = group.pages + group.count * PAGE;
    if (!this.decoder.read(object, page)) return;
    group.taken += this.takenBy(object);
    const at = group.count * MEMBER_WORDS;
    group.members[at + Member.SLOT] = slot;
    group.members[at + Member.SEQUENCE] = sequence;
    group.members[at + Member.OBJECT] = object;
    workspace.kernels.sketch(page, AT.sketch);
    for (let i = 0; i < 4; i++) group.members[at + Member.SKETCH + i] = workspace.words[AT.sketch / 4 + i];
    group.count++;
    if (group.isFull) this.propose(group, task);
  }

  /** Publishes a group as a cluster when that pays, and empties it. */
  private propose(group: ClusterGroup, { owner, domain }: ClusterTask): void {
    if (group.count >= LEAST) this.encode(group, owner, domain);
    group.clear();
  }

  private encode(group: ClusterGroup, owner: number, domain: number): void {
    const { ring } = this;
    const entry = ring.reserve();
    const length =
      group === this.based ? this.encodeBased(group, entry) : this.encodeAlone(group, entry, domain);
    if (length <= 0 || blockBytes(length) > WORTH * group.taken) return this.giveUp(group);
    ring.words[entry + MEMBERS] = group.count;
    ring.words[entry + Result.LENGTH] = length;
    ring.words[entry + Result.OWNER] = owner;
    ring.words.set(group.members.subarray(0, group.count * MEMBER_WORDS), memberWords(entry, 0));
    memcpy(ring.block(entry), this.workspace.address + AT.output, length);
    ring.publish();
  }

  /** What does not pay now will not in the next window: its pages are left alone until they are written again. */
  private giveUp({ members, count }: ClusterGroup): void {
    for (let at = 0; at < count * MEMBER_WORDS; at += MEMBER_WORDS)
      this.tried[members[at + Member.SLOT]] = markOf(members[at + Member.SEQUENCE]);
  }

  /** Bytes of the cluster's block, which is at AT.output then; 0 or less: there is none. */
  private encodeAlone(group: ClusterGroup, entry: number, domain: number): number {
    const { tables, compressor, decoder } = this;
    const { words } = this.ring;
    const dictionary = openDictionary(tables, domain);
    words[entry + Result.KIND] = Kind.CLUSTER;
    words[entry + Result.BASE] = dictionary;
    words[entry + Result.BASE_HASH_LOW] = tables.dictionaryVersion[dictionary];
    const { address } = this.workspace;
    const to = address + AT.output;
    const from = address + group.pages;
    const bytes = group.count * PAGE;
    const digest = dictionary === 0 ? 0 : digestOf(this.dictionaries, tables, dictionary);
    if (dictionary !== 0 && digest === 0) return 0;
    const length =
      digest === 0
        ? compressor.compress(to, MAX_BLOCK, from, bytes)
        : compressor.compressDigest(to, MAX_BLOCK, from, bytes, digest);
    if (length <= 0) return 0;
    const restored = decoder.inflateWith(dictionary, AT.check, CLUSTER_BYTES, to, length);
    return this.restores(group, restored) ? length : 0;
  }

  /** The same; the block begins with the bases' names. */
  private encodeBased(group: ClusterGroup, entry: number): number {
    const { compressor, decoder } = this;
    const { words } = this.ring;
    words[entry + Result.KIND] = Kind.BASED_CLUSTER;
    words[entry + Result.BASE] = group.baseCounts;
    if (!this.gather(group, entry)) return 0;
    const { address } = this.workspace;
    const prefix = address + AT.prefix;
    const head = 4 * group.bases;
    const to = address + AT.output + head;
    const from = address + group.pages;
    const room = MAX_BLOCK - head;
    const bytes = group.count * PAGE;
    const length = compressor.compressDelta(to, room, from, bytes, prefix, group.bases * PAGE);
    if (length <= 0) return 0;
    const restored = decoder.inflateBased(AT.check, to, length, AT.prefix, group.bases);
    return this.restores(group, restored) ? length + head : 0;
  }

  /** Brings a group's bases to AT.prefix and their names to AT.output; false when one is gone. */
  private gather({ objects, templates }: ClusterGroup, entry: number): boolean {
    const { tables, workspace, packs } = this;
    const { words } = this.ring;
    for (let i = 0; i < objects.count; i++) {
      const base = objects.at[i];
      workspace.words[AT.output / 4 + i] = base;
      // First the hash, then the bytes: another page's, that has taken its place meanwhile, have another.
      const hash = baseHashWords(entry, i);
      words[hash] = tables.objectHashLow[base];
      words[hash + 1] = tables.objectHashHigh[base];
      if (!this.decoder.read(base, AT.prefix + i * PAGE)) return false;
    }
    for (let i = 0; i < templates.count; i++) {
      const place = objects.count + i;
      workspace.words[AT.output / 4 + place] = templates.at[i];
      if (!packs.read(templates.at[i], workspace.address + AT.prefix + place * PAGE)) return false;
    }
    return true;
  }

  /** Did all of a group's pages come back at AT.check? */
  private restores(group: ClusterGroup, restored: number): boolean {
    const { kernels } = this.workspace;
    if (restored !== group.count * PAGE) return false;
    for (let at = 0; at < restored; at += PAGE) {
      if (kernels.differingWords(group.pages + at, AT.check + at) !== 0) return false;
    }
    return true;
  }
}

/** Of a write, 1 to 255. Two writes of a slot may have the same: then a page stays as it is that might have been put together. */
const markOf = (sequence: number): number => 1 + (sequence % 255);
