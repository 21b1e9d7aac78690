import { Kind, mayJoin } from '../codec/kinds.js';
import { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { memcpy } from '../native/memory.js';
import { digestMaker, ZstdCompressor } from '../native/zstd.js';
import { blockBytes, MAX_BLOCK } from './arena.js';
import { Decoder, DECODER_BYTES } from './decoder.js';
import { digestOf, openDictionary } from './dictionaries.js';
import { Digests } from './digests.js';
import { MAX_CLUSTER, OWNER_MASK, Super } from './layout.js';
import type { PackSet } from './packs.js';
import { Member, MEMBERS, memberWords, Result, type ResultRing } from './results.js';
import type { Tables } from './tables.js';

/** Fewer pages gain too little. */
const LEAST = 2;
/** What a cluster takes over what its pages took; above it nothing changes. */
const WORTH = 0.95;
/** Level for pages that rest: some 40 µs a page, as much as for one alone with its dictionary. */
const LEVEL = 6;

/** Pages of a pass between two looks at what else is to be done: some 7 ms. */
export const PASS_PAGES = 128;

const AT = {
  pages: 0,
  check: MAX_CLUSTER * PAGE,
  output: 2 * MAX_CLUSTER * PAGE,
  sketch: 2 * MAX_CLUSTER * PAGE + MAX_BLOCK,
  decoder: 2 * MAX_CLUSTER * PAGE + MAX_BLOCK + PAGE,
};

/** Whose pages are to be put together, and which: those that were not written after a sequence. */
export interface ClusterTask {
  owner: number;
  domain: number;
  before: number;
}

/**
 * Puts pages without a base together that have rested for a while: neighbours in one frame take less than each by itself.
 * As a refiner it only reads the store; the data loop verifies what it proposes.
 */
export class Clusterer {
  private readonly workspace = new Workspace(AT.decoder + DECODER_BYTES);
  private readonly compressor: ZstdCompressor;
  private readonly dictionaries: Digests;
  private readonly decoder: Decoder;
  private count = 0;
  /** Bytes the pages at hand take now. */
  private taken = 0;

  constructor(
    private readonly tables: Tables,
    packs: PackSet,
    private readonly ring: ResultRing,
    level: number,
  ) {
    this.compressor = new ZstdCompressor(Math.max(level, LEVEL));
    this.dictionaries = new Digests(digestMaker(Math.max(level, LEVEL)));
    this.decoder = new Decoder(tables, packs, this.workspace, AT.decoder);
  }

  /**
   * Looks at the owner's slots from `from` on, in the order in which the kernel gave them out, which is that of addresses
   * by and large, and proposes clusters of at most `limit` pages in all, for as long as `goesOn`. The slot to go on at; -1:
   * all were looked at.
   */
  pass(task: ClusterTask, from: number, limit: number, goesOn: () => boolean): number {
    const { tables } = this;
    const high = tables.superblock[Super.HIGH_SLOT];
    this.count = this.taken = 0;
    let left = limit;
    const { slotUse } = tables;
    for (let slot = slotUse.next(from); slot < high; slot = slotUse.next(slot + 1)) {
      if (!this.rests(slot, task)) continue;
      if (left-- === 0 || (this.count === 0 && !goesOn())) return slot;
      this.add(slot);
      if (this.count === MAX_CLUSTER) this.propose(task);
    }
    if (this.count >= LEAST) this.propose(task);
    return -1;
  }

  /** Is it a page without a base, or one of a cluster of which little is left, that nothing else rests on? */
  private rests(slot: number, { owner, domain, before }: ClusterTask): boolean {
    const { tables } = this;
    if ((tables.slotOwner[slot] & OWNER_MASK) !== owner) return false;
    if (((tables.slotSequence[slot] - before) | 0) > 0) return false;
    const object = tables.slotObject[slot];
    const kind = tables.objectKind[object];
    if (!mayJoin(kind) || tables.objectRefs[object] !== 1 || tables.objectDomain[object] !== domain)
      return false;
    return kind !== Kind.MEMBER || 2 * this.left(object) <= tables.objectHashLow[tables.objectBase[object]];
  }

  /** Members that the cluster of this one still has. */
  private left(member: number): number {
    return this.tables.objectRefs[this.tables.objectBase[member]];
  }

  private add(slot: number): void {
    const { tables, count } = this;
    const sequence = tables.slotSequence[slot];
    const object = tables.slotObject[slot];
    if (!this.decoder.read(object, AT.pages + count * PAGE)) return;
    const isMember = tables.objectKind[object] === Kind.MEMBER;
    const block = isMember ? tables.objectBase[object] : object;
    this.taken += blockBytes(tables.objectLength[block]) / (isMember ? Math.max(1, this.left(object)) : 1);
    // The entry is the next one to be published: members are noted in it as they are found.
    const at = memberWords(this.ring.reserve(), count);
    const { words } = this.ring;
    words[at + Member.SLOT] = slot;
    words[at + Member.SEQUENCE] = sequence;
    words[at + Member.OBJECT] = object;
    this.workspace.kernels.sketch(AT.pages + count * PAGE, AT.sketch);
    for (let i = 0; i < 4; i++) words[at + Member.SKETCH + i] = this.workspace.words[AT.sketch / 4 + i];
    this.count++;
  }

  /** Publishes the pages at hand as a cluster when that pays, and begins with the next. */
  private propose({ owner, domain }: ClusterTask): void {
    const { ring, count, taken, tables } = this;
    this.count = this.taken = 0;
    const dictionary = openDictionary(tables, domain);
    const version = tables.dictionaryVersion[dictionary];
    const length = this.compress(count, dictionary);
    if (length <= 0 || blockBytes(length) > WORTH * taken || !this.restores(count, length, dictionary))
      return;
    const entry = ring.reserve();
    const { words } = ring;
    words[entry + MEMBERS] = count;
    words[entry + Result.KIND] = Kind.CLUSTER;
    words[entry + Result.LENGTH] = length;
    words[entry + Result.BASE] = dictionary;
    words[entry + Result.BASE_HASH_LOW] = version;
    words[entry + Result.OWNER] = owner;
    memcpy(ring.frame(entry), this.workspace.address + AT.output, length);
    ring.publish();
  }

  private compress(count: number, dictionary: number): number {
    const { compressor, tables } = this;
    const { address } = this.workspace;
    const to = address + AT.output;
    const from = address + AT.pages;
    const bytes = count * PAGE;
    if (dictionary === 0) return compressor.compress(to, MAX_BLOCK, from, bytes);
    const digest = digestOf(this.dictionaries, tables, dictionary);
    return digest === 0 ? 0 : compressor.compressDigest(to, MAX_BLOCK, from, bytes, digest);
  }

  private restores(count: number, length: number, dictionary: number): boolean {
    const { decoder, workspace } = this;
    const bytes = count * PAGE;
    const from = workspace.address + AT.output;
    if (decoder.inflateWith(dictionary, AT.check, bytes, from, length) !== bytes) return false;
    for (let at = 0; at < bytes; at += PAGE) {
      if (workspace.kernels.differingWords(AT.pages + at, AT.check + at) !== 0) return false;
    }
    return true;
  }
}
