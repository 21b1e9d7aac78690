import { Kind, PAIR_HEAD } from '../codec/kinds.js';
import type { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { memcpy } from '../native/memory.js';
import { decodeDigestMaker, ZstdDecompressor } from '../native/zstd.js';
import { DEPTH } from './chains.js';
import { digestOf } from './dictionaries.js';
import { Digests } from './digests.js';
import { MAX_CLUSTER, MAX_DICTIONARIES } from './layout.js';
import type { PackSet } from './packs.js';
import { basesIn, MAX_CLUSTER_BASES, objectsIn } from './references.js';
import type { Tables } from './tables.js';

/** Two base pages a level of a chain, and the longest list of changed words. */
const LEVEL_BYTES = 2 * PAGE;
const SPARSE_BYTES = 512;
/** Bytes of workspace a decoder needs for itself: small things, the list, base pages, and a template's page. */
const SMALL_BYTES = 64;
/** Clusters kept decoded: who reads a page of one often reads the next soon. */
const CLUSTERS = 4;
const CLUSTER_BYTES = MAX_CLUSTER * PAGE;
/** A cluster's bases, side by side. One that rests on nothing but templates may lie at the end of a chain. */
const PREFIX_BYTES = MAX_CLUSTER_BASES * PAGE;
const PREFIXES = DEPTH + 1;
export const DECODER_BYTES =
  SMALL_BYTES +
  SPARSE_BYTES +
  DEPTH * LEVEL_BYTES +
  PAGE +
  CLUSTERS * CLUSTER_BYTES +
  PREFIXES * PREFIX_BYTES;

/**
 * Turns an object back into its page. Shared by the data loop and the refine workers. A worker may read an object
 * while the loop replaces it: it then gets false, or bytes whose hash does not fit, and never more than that.
 */
export class Decoder {
  private readonly zstd = new ZstdDecompressor();
  private readonly dictionaries = new Digests(decodeDigestMaker);
  private readonly address: number;
  private readonly list: number;
  private readonly levels: number;
  private readonly template: number;
  private readonly clustersAt: number;
  private readonly prefixesAt: number;
  /** The clusters decoded last; 0 is none. */
  private readonly clusters = new Uint32Array(CLUSTERS);
  private lastPlace = 0;

  /** `scratch`: offset of DECODER_BYTES in the workspace. */
  constructor(
    private readonly tables: Tables,
    private readonly packs: PackSet,
    private readonly workspace: Workspace,
    private readonly scratch: number,
  ) {
    this.address = workspace.address;
    this.list = scratch + SMALL_BYTES;
    this.levels = this.list + SPARSE_BYTES;
    this.template = this.levels + DEPTH * LEVEL_BYTES;
    this.clustersAt = this.template + PAGE;
    this.prefixesAt = this.clustersAt + CLUSTERS * CLUSTER_BYTES;
  }

  /** Decodes into the workspace at `to` and checks the hash; false when the page can not be had. */
  read(object: number, to: number): boolean {
    return this.decode(object, to, 0) && this.matches(object, to);
  }

  /** Does the page at `at` have the object's hash? */
  matches(object: number, at: number): boolean {
    const hash = this.scratch;
    this.workspace.kernels.xxh64(at, hash);
    const { words } = this.workspace;
    return (
      words[hash / 4] === this.tables.objectHashLow[object] &&
      words[hash / 4 + 1] === this.tables.objectHashHigh[object]
    );
  }

  /** `level`: how many objects wait for this one; no more than DEPTH may. */
  private decode(object: number, to: number, level: number): boolean {
    const { tables, packs } = this;
    const base = tables.objectBase[object];
    switch (tables.objectKind[object]) {
      case Kind.SAME:
        return this.fill(object, to);
      case Kind.STAGED:
      case Kind.RAW:
        memcpy(this.address + to, tables.addressOf(object), PAGE);
        return true;
      case Kind.ZSTD:
      case Kind.QUICK:
        return this.inflate(object, to, 0, 0);
      case Kind.TEMPLATE:
        return this.copyTemplate(base, to);
      case Kind.TEMPLATE_SPARSE:
        return this.copyTemplate(base, to) && this.patch(object, to);
      case Kind.SPARSE:
        return level < DEPTH && this.decode(base, to, level + 1) && this.patch(object, to);
      case Kind.TEMPLATE_DELTA:
        return this.undelta(object, to, this.templateAddress(base), PAGE);
      case Kind.TEMPLATE_RUN:
        return this.undelta(object, to, packs.runAddress(base), packs.runBytes(base));
      case Kind.DICTIONARY:
        return (
          this.inflateWith(base, to, PAGE, tables.addressOf(object), tables.objectLength[object]) === PAGE
        );
      case Kind.MEMBER:
        return this.copyMember(object, to, level);
      case Kind.DELTA:
        return this.undelta(object, to, this.baseAddress(base, level), PAGE);
      case Kind.PAIR:
      case Kind.TEMPLATE_PAIR:
        return this.unpair(object, to, level);
      default:
        return false;
    }
  }

  private fill(object: number, to: number): boolean {
    const word = this.scratch + 16;
    this.workspace.words[word / 4] = this.tables.objectOffset[object];
    this.workspace.words[word / 4 + 1] = this.tables.objectBase[object];
    this.workspace.kernels.fill(to, word);
    return true;
  }

  private copyTemplate(reference: number, to: number): boolean {
    return this.packs.read(reference, this.address + to);
  }

  /** From the cluster as it was decoded last, while that is the same cluster. */
  private copyMember(object: number, to: number, level: number): boolean {
    const { clusters, tables } = this;
    const cluster = tables.objectBase[object];
    const page = tables.objectLength[object] * PAGE;
    if (page >= CLUSTER_BYTES) return false;
    const known = clusters.indexOf(cluster);
    // The number may have been another cluster's.
    if (known >= 0 && this.copyFrom(known, page, to) && this.matches(object, to)) return true;
    return this.copyFrom(this.decodeCluster(cluster, level), page, to);
  }

  /** False when there is no such place. */
  private copyFrom(place: number, page: number, to: number): boolean {
    if (place < 0) return false;
    const at = this.clustersAt + place * CLUSTER_BYTES + page;
    this.workspace.bytes.copyWithin(to, at, at + PAGE);
    return true;
  }

  /** Decodes a cluster to the place of the one decoded longest ago; the number of the place, or -1. */
  private decodeCluster(cluster: number, level: number): number {
    const { tables, clusters } = this;
    const isBased = tables.objectKind[cluster] === Kind.BASED_CLUSTER;
    if (!isBased && tables.objectKind[cluster] !== Kind.CLUSTER) return -1;
    const bases = isBased ? this.gather(cluster, level) : 0;
    if (bases < 0) return -1;
    // Only now: to get at the bases, places may have been given to others.
    const place = (this.lastPlace + 1) % CLUSTERS;
    const to = this.clustersAt + place * CLUSTER_BYTES;
    const from = tables.addressOf(cluster);
    const length = tables.objectLength[cluster];
    const written = isBased
      ? this.inflateBased(to, from + 4 * bases, length - 4 * bases, this.prefix(level), bases)
      : this.inflateWith(tables.objectBase[cluster], to, CLUSTER_BYTES, from, length);
    clusters[place] = written > 0 ? cluster : 0;
    this.lastPlace = place;
    return written > 0 ? place : -1;
  }

  /** Brings a cluster's bases to the level's prefix. How many, or -1 when there is one that can not be had. */
  private gather(cluster: number, level: number): number {
    const counts = this.tables.objectBase[cluster];
    const objects = objectsIn(counts);
    const bases = basesIn(counts);
    if (bases > MAX_CLUSTER_BASES || level > DEPTH || (objects > 0 && level === DEPTH)) return -1;
    for (let i = 0; i < bases; i++) {
      const base = this.tables.headWord(cluster, i);
      const to = this.prefix(level) + i * PAGE;
      if (!(i < objects ? this.decode(base, to, level + 1) : this.copyTemplate(base, to))) return -1;
    }
    return bases;
  }

  private prefix(level: number): number {
    return this.prefixesAt + level * PREFIX_BYTES;
  }

  /** Decompresses a cluster's frame, with `bases` pages at `prefix` ahead of it, as `inflateWith` does. */
  inflateBased(to: number, from: number, length: number, prefix: number, bases: number): number {
    if (length <= 0) return -1;
    const { address, zstd } = this;
    return zstd.decompressDelta(address + to, CLUSTER_BYTES, from, length, address + prefix, bases * PAGE);
  }

  /**
   * Decompresses from a native address to the workspace at `to`, with a dictionary (0: none). Bytes written, or a negative
   * number.
   */
  inflateWith(dictionary: number, to: number, capacity: number, from: number, length: number): number {
    const { tables, zstd } = this;
    const target = this.address + to;
    if (dictionary === 0 || dictionary > MAX_DICTIONARIES)
      return zstd.decompress(target, capacity, from, length);
    const digest = digestOf(this.dictionaries, tables, dictionary);
    if (digest !== 0) return zstd.decompressDigest(target, capacity, from, length, digest);
    // Without memory for a digest it takes a little longer.
    const bytes = tables.dictionaryAddress(dictionary);
    return zstd.decompressDelta(target, capacity, from, length, bytes, tables.dictionaryLength[dictionary]);
  }

  private patch(object: number, to: number): boolean {
    const length = this.tables.objectLength[object];
    if (length > SPARSE_BYTES) return false;
    memcpy(this.address + this.list, this.tables.addressOf(object), length);
    return this.workspace.kernels.sparsePatch(to, this.list, length) === 1;
  }

  private undelta(object: number, to: number, base: number, baseBytes: number): boolean {
    return base !== 0 && this.inflate(object, to, base, baseBytes);
  }

  /** Second base, then base, side by side. */
  private unpair(object: number, to: number, level: number): boolean {
    if (level >= DEPTH) return false;
    const { tables } = this;
    const at = this.levels + level * LEVEL_BYTES;
    const second = tables.secondBase(object);
    const isTemplate = tables.objectKind[object] === Kind.TEMPLATE_PAIR;
    if (!(isTemplate ? this.copyTemplate(second, at) : this.decode(second, at, level + 1))) return false;
    if (!this.decode(tables.objectBase[object], at + PAGE, level + 1)) return false;
    return this.inflate(object, to, this.address + at, LEVEL_BYTES, PAIR_HEAD);
  }

  /** Native address of a base's page: in place when it is raw, else decoded to the level's place; 0 when it can't be one. */
  private baseAddress(base: number, level: number): number {
    if (level >= DEPTH) return 0;
    if (this.tables.objectKind[base] === Kind.RAW) return this.tables.addressOf(base);
    const at = this.levels + level * LEVEL_BYTES;
    return this.decode(base, at, level + 1) ? this.address + at : 0;
  }

  /** The same of a template's page, until the next one. */
  private templateAddress(reference: number): number {
    return this.copyTemplate(reference, this.template) ? this.address + this.template : 0;
  }

  /** zstd with a prefix (0 bytes: none); `head`: bytes of the block before it. */
  private inflate(object: number, to: number, prefix: number, prefixBytes: number, head = 0): boolean {
    const { zstd, tables } = this;
    const target = this.address + to;
    const from = tables.addressOf(object) + head;
    const length = tables.objectLength[object] - head;
    if (length <= 0) return false;
    return prefixBytes === 0
      ? zstd.decompress(target, PAGE, from, length) === PAGE
      : zstd.decompressDelta(target, PAGE, from, length, prefix, prefixBytes) === PAGE;
  }
}
