import { reserveWords } from '../native/memory.js';
import { PAGE } from '../native/libc.js';

/** A shard's place, whether it is used in full or not: what lies behind the entries in use is a hole. */
const SHARD_BYTES = 65536;
/** Words at the head of a shard: entries it has room for, entries in use. At the head of the first also what is of all shards. */
const CAPACITY = 0;
const COUNT = 1;
const SHARDS = 2;
const TOTAL = 3;
const PAGES = 4;
const HEAD_BYTES = 32;
const ID_BYTES = 3;
/** Larger ids are not taken in. */
const MAX_ID = 2 ** (8 * ID_BYTES) - 1;
/** Share of the capacity in use from which a shard grows: a search that finds nothing looks at some thirteen entries then. */
const FULL = 0.8;
const GROWTH = 4 / 3;
/** Share in use from which a shard is made smaller. */
const SPARE = 0.3;
/** Entries a shard has in the mean when there is one more, and when there is one less. A shard may have twice as many. */
const SHARE = 6144;
const LEAST_SHARE = SHARE / 4;
const MOST_PAGES = SHARD_BYTES / PAGE;
/** Shards looked at a call for what can be given back. */
const LOOK = 64;

/** Words an index of at most `entries` entries needs when it is full. */
export const hashIndexWords = (entries: number): number =>
  (Math.max(1, Math.ceil(entries / SHARE)) * SHARD_BYTES) / 4;

const roomOf = (pages: number): number => Math.floor((pages * PAGE - HEAD_BYTES) / ID_BYTES);
const pagesFor = (entries: number): number =>
  Math.min(MOST_PAGES, Math.max(1, Math.ceil((entries / FULL) * (ID_BYTES / PAGE))));

/** Ids of up to two shards while they are moved. Of this thread, and no memory until it is used. */
const moved = reserveWords(2 * roomOf(MOST_PAGES));

/**
 * Finds what has a given content hash: open addressing with linear probing over 3-byte ids (0 is empty), in shards, of which
 * there is one more or one less at a time (linear hashing, Litwin 1980), and which grow and shrink by pages: nobody waits
 * until a large index is moved, and little of it is empty. Keys are not stored; they are read from the columns the ids
 * point into. One thread writes. Others may look things up at the same time and can miss or get a wrong id: they verify
 * what they find.
 */
export class HashIndex {
  /** What the last `shrink` has freed: bytes that may go back to the kernel. */
  readonly freed = { at: 0, bytes: 0 };
  private readonly bytes: Uint8Array;
  private readonly most: number;
  private looked = 0;

  /** `domains` null: one domain only (a template pack). */
  constructor(
    private readonly words: Uint32Array,
    private readonly hashLow: Uint32Array,
    private readonly hashHigh: Uint32Array,
    private readonly domains: Uint16Array | null,
  ) {
    this.bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
    this.most = Math.floor(words.byteLength / SHARD_BYTES);
  }

  /** Empties the index; for the writer. */
  reset(): void {
    for (let shard = 0; shard < this.words[SHARDS]; shard++) this.resize(shard, 0);
    this.words[SHARDS] = 1;
    this.words[TOTAL] = this.words[PAGES] = 0;
    this.resize(0, 1);
  }

  /** The words with all shards: what a file needs to hold the index. */
  used(): Uint32Array {
    const last = this.words[SHARDS] - 1;
    return this.words.subarray(0, (last * SHARD_BYTES + this.pages(last) * PAGE) / 4);
  }

  /** Bytes of memory it takes. */
  get usedBytes(): number {
    return this.words[PAGES] * PAGE;
  }

  /** Id with this hash in this domain, or 0. Equal hashes do not prove equal pages. */
  find(low: number, high: number, domain: number): number {
    const hash = hashOf(low, high, domain);
    const shard = this.shardOf(hash);
    const capacity = this.head(shard, CAPACITY);
    let at = homeOf(hash, capacity);
    for (let probes = 0; probes < capacity; probes++) {
      const id = this.get(shard, at);
      if (id === 0) return 0;
      if (this.hashLow[id] === low && this.hashHigh[id] === high && this.domainOf(id) === domain) return id;
      if (++at === capacity) at = 0;
    }
    return 0;
  }

  insert(id: number): void {
    if (id > MAX_ID) return;
    if (this.words[TOTAL] >= this.words[SHARDS] * SHARE && this.words[SHARDS] < this.most) this.split();
    const hash = this.hash(id);
    const shard = this.shardOf(hash);
    if (this.head(shard, COUNT) >= this.head(shard, CAPACITY) * FULL && !this.grow(shard)) return;
    this.put(shard, hash, id);
    this.words[TOTAL]++;
  }

  remove(id: number): void {
    const hash = this.hash(id);
    const shard = this.shardOf(hash);
    const capacity = this.head(shard, CAPACITY);
    const last = capacity - 1;
    let at = homeOf(hash, capacity);
    for (let found = this.get(shard, at); found !== id; found = this.get(shard, at)) {
      if (found === 0) return;
      at = at === last ? 0 : at + 1;
    }
    // Close the gap: move back whatever a probe would no longer reach.
    for (let from = at === last ? 0 : at + 1; ; from = from === last ? 0 : from + 1) {
      const other = this.get(shard, from);
      if (other === 0) break;
      const reached = from - homeOf(this.hash(other), capacity);
      const wide = from - at;
      if ((reached < 0 ? reached + capacity : reached) >= (wide < 0 ? wide + capacity : wide)) {
        this.set(shard, at, other);
        at = from;
      }
    }
    this.set(shard, at, 0);
    this.setHead(shard, COUNT, this.head(shard, COUNT) - 1);
    this.words[TOTAL]--;
  }

  /** Makes one shard smaller, or does without the last; false when neither is worth it. See `freed`. */
  shrink(): boolean {
    const last = this.words[SHARDS] - 1;
    if (last > 0 && this.words[TOTAL] < last * LEAST_SHARE) {
      this.merge(last);
      return true;
    }
    for (let look = 0; look < Math.min(LOOK, last + 1); look++) {
      this.looked = this.looked < last ? this.looked + 1 : 0;
      const shard = this.looked;
      const pages = pagesFor(this.head(shard, COUNT) * GROWTH);
      const before = this.pages(shard);
      if (this.head(shard, COUNT) > this.head(shard, CAPACITY) * SPARE || pages >= before) continue;
      this.rebuild(shard, pages, this.take(shard, 0));
      this.freed.at = shard * SHARD_BYTES + pages * PAGE;
      this.freed.bytes = (before - pages) * PAGE;
      return true;
    }
    return false;
  }

  private grow(shard: number): boolean {
    const pages = this.pages(shard);
    if (pages === MOST_PAGES) return this.head(shard, COUNT) < this.head(shard, CAPACITY) - MOST_PAGES;
    this.rebuild(shard, Math.min(MOST_PAGES, Math.ceil(pages * GROWTH)), this.take(shard, 0));
    return true;
  }

  /** One shard more, which takes its part of the entries of another. */
  private split(): void {
    const shards = this.words[SHARDS];
    const other = partnerOf(shards);
    const count = this.take(other, 0);
    this.words[SHARDS] = shards + 1;
    let here = 0;
    for (let i = 0; i < count; i++) if (this.shardOf(this.hash(moved[i])) === other) here++;
    this.resize(other, pagesFor(here * GROWTH));
    this.resize(shards, pagesFor((count - here) * GROWTH));
    this.putAll(count);
  }

  private merge(last: number): void {
    const other = partnerOf(last);
    const count = this.take(last, this.take(other, 0));
    this.freed.at = last * SHARD_BYTES;
    this.freed.bytes = this.pages(last) * PAGE;
    this.resize(last, 0);
    this.words[SHARDS] = last;
    this.rebuild(other, pagesFor(count * GROWTH), count);
  }

  /** Gives an empty shard this many pages, and the first `count` ids that were moved. */
  private rebuild(shard: number, pages: number, count: number): void {
    this.resize(shard, pages);
    this.putAll(count);
  }

  /** Copies a shard's ids to where those that are moved are kept, from `count` on; how many there are then. */
  private take(shard: number, count: number): number {
    const capacity = this.head(shard, CAPACITY);
    let to = count;
    for (let at = 0; at < capacity; at++) {
      const id = this.get(shard, at);
      if (id !== 0) moved[to++] = id;
    }
    return to;
  }

  private putAll(count: number): void {
    for (let i = 0; i < count; i++) {
      const hash = this.hash(moved[i]);
      this.put(this.shardOf(hash), hash, moved[i]);
    }
  }

  /** Empties a shard, and makes it so large. */
  private resize(shard: number, pages: number): void {
    const before = this.pages(shard);
    const from = shard * SHARD_BYTES + HEAD_BYTES;
    this.bytes.fill(0, from, shard * SHARD_BYTES + Math.max(pages, before) * PAGE);
    this.words[PAGES] += pages - before;
    this.setHead(shard, CAPACITY, pages === 0 ? 0 : roomOf(pages));
    this.setHead(shard, COUNT, 0);
  }

  private pages(shard: number): number {
    const capacity = this.head(shard, CAPACITY);
    return capacity === 0 ? 0 : Math.ceil((HEAD_BYTES + capacity * ID_BYTES) / PAGE);
  }

  private put(shard: number, hash: number, id: number): void {
    const capacity = this.head(shard, CAPACITY);
    let at = homeOf(hash, capacity);
    while (this.get(shard, at) !== 0) at = at + 1 === capacity ? 0 : at + 1;
    this.set(shard, at, id);
    this.setHead(shard, COUNT, this.head(shard, COUNT) + 1);
  }

  private shardOf(hash: number): number {
    const shards = this.words[SHARDS];
    const bit = highestBit(shards);
    const shard = hash & (2 * bit - 1);
    return shard < shards ? shard : shard & (bit - 1);
  }

  private head(shard: number, word: number): number {
    return this.words[(shard * SHARD_BYTES) / 4 + word];
  }

  private setHead(shard: number, word: number, value: number): void {
    this.words[(shard * SHARD_BYTES) / 4 + word] = value;
  }

  private get(shard: number, entry: number): number {
    const at = shard * SHARD_BYTES + HEAD_BYTES + entry * ID_BYTES;
    return this.bytes[at] | (this.bytes[at + 1] << 8) | (this.bytes[at + 2] << 16);
  }

  private set(shard: number, entry: number, id: number): void {
    const at = shard * SHARD_BYTES + HEAD_BYTES + entry * ID_BYTES;
    this.bytes[at] = id;
    this.bytes[at + 1] = id >>> 8;
    this.bytes[at + 2] = id >>> 16;
  }

  private hash(id: number): number {
    return hashOf(this.hashLow[id], this.hashHigh[id], this.domainOf(id));
  }

  private domainOf(id: number): number {
    return this.domains === null ? 0 : this.domains[id];
  }
}

const highestBit = (number: number): number => 2 ** (31 - Math.clz32(number));

/** The shard whose entries a new last one shares. */
const partnerOf = (shard: number): number => shard - highestBit(shard);

/** Its low bits are the shard's. */
const hashOf = (low: number, high: number, domain: number): number =>
  (low ^ Math.imul(high, 0x9e3779b1) ^ Math.imul(domain, 0x85ebca6b)) >>> 0;

/** Where in a shard a search begins. */
const homeOf = (hash: number, capacity: number): number =>
  Math.floor(((Math.imul(hash, 0x9e3779b1) >>> 0) / 2 ** 32) * capacity);
