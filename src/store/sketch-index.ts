/** Words before the entries: how many buckets there are; while that changes, how many there will be, and how far it is. */
const HEADER = 16;
const BUCKETS = 0;
const NEXT = 1;
const FRONTIER = 2;
/**
 * A bucket: a word an entry (the id, and the low byte of its tag on top), then the tags' high bytes. The bucket's number is
 * the hash times the number of buckets, its tag the low 16 bits of the hash: together they are the hash again, and what
 * both do not share tells strangers apart.
 */
const WAYS = 8;
const BUCKET_WORDS = WAYS + WAYS / 4;
const ID_BITS = 24;
/** Larger ids are not taken in. */
const MAX_ID = 2 ** ID_BITS - 1;
const HASH_BITS = 26;
const TAG_BITS = 16;
const TAG_MASK = 2 ** TAG_BITS - 1;
/** With fewer a tag would not do; with more every second entry would be a stranger. */
const LEAST_BUCKETS = 2 ** (HASH_BITS - TAG_BITS);
const MOST_BUCKETS = 2 ** (HASH_BITS - 5);
/** Share of the entries in use from which the index grows, and by how much: then a few buckets are full, and forget. */
const FULL = 0.9;
const GROWTH = 1.25;
/** Entries of one feature: who looks for more than these has others like it to find. */
const MOST_ALIKE = 2;
/** Buckets moved with an insertion while the index grows: enough to be done before it is full. */
const MOVES = 4;
/** Buckets moved a call while it shrinks. */
const STEP = 2048;

/** Super-features of a sketch. */
export const FEATURES = 4;
/** Most candidates one look-up can give. */
export const MAX_CANDIDATES = FEATURES * WAYS;

/** Words an index for `bases` ids needs when it is full. */
export const sketchIndexWords = (bases: number): number =>
  HEADER + BUCKET_WORDS * Math.ceil(bucketsFor(bases) * GROWTH);

const bucketsFor = (bases: number): number =>
  Math.min(MOST_BUCKETS, Math.max(LEAST_BUCKETS, Math.ceil((bases * FEATURES) / (FULL * WAYS))));

/** Entries of a bucket while they are moved. */
const moved = { ids: new Uint32Array(WAYS), tags: new Uint32Array(WAYS) };

/**
 * Finds pages that look alike: super-feature → id, eight ways a bucket, the oldest entry goes. It forgets, it may
 * point at what no longer exists, and now and then it names a stranger; the caller verifies every candidate. One
 * thread writes. All buckets are equally full at any size; it grows and shrinks a few buckets at a time, so nobody waits
 * until a large index is moved.
 */
export class SketchIndex {
  private readonly limit: number;
  private readonly bytes: Uint8Array;

  constructor(private readonly words: Uint32Array) {
    this.limit = Math.floor((words.length - HEADER) / BUCKET_WORDS);
    this.bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
  }

  reset(): void {
    this.words.fill(0, 0, Math.max(this.used().length, addressOf(LEAST_BUCKETS)));
    this.words[BUCKETS] = LEAST_BUCKETS;
  }

  /** The words in use: what a file needs to hold the index. */
  used(): Uint32Array {
    return this.words.subarray(0, addressOf(Math.max(this.words[BUCKETS], this.words[NEXT])));
  }

  /**
   * `features` holds the sketch from index `at` on; `salt` keeps domains apart. `ids`: how many ids there are now; the
   * index grows with them, not with what has come and gone. `instead`: the id of the same page until now, whose place this
   * one takes; 0: none.
   */
  insert(features: Uint32Array, at: number, salt: number, id: number, ids: number, instead = 0): void {
    if (id > MAX_ID) return;
    const buckets = this.words[BUCKETS];
    if (this.words[NEXT] === 0 && bucketsFor(ids) > buckets) {
      this.resize(Math.min(this.limit, Math.ceil(buckets * GROWTH)));
    }
    if (this.words[NEXT] > buckets) this.move(MOVES);
    for (let i = 0; i < FEATURES; i++) {
      const hash = hashOf(features[at + i], salt, i);
      this.put(this.bucket(hash), hash & TAG_MASK, id, instead);
    }
  }

  /**
   * Ids that share a super-feature, those sharing most first, into `ids` from 0 on; returns how many.
   * `ids` has room for MAX_CANDIDATES.
   */
  find(features: Uint32Array, at: number, salt: number, ids: Uint32Array): number {
    let count = 0;
    for (let i = 0; i < FEATURES; i++) {
      const hash = hashOf(features[at + i], salt, i);
      const first = this.bucket(hash);
      const tag = hash & TAG_MASK;
      for (let way = 0; way < WAYS; way++) {
        const entry = this.words[first + way];
        if (entry !== 0 && this.tag(first, way) === tag) count = addCandidate(ids, count, entry & MAX_ID);
      }
    }
    return count;
  }

  /** Makes the index smaller, a step a call, when half of it would do for `ids`; true while there is something to do. */
  shrink(ids: number): boolean {
    const buckets = this.words[BUCKETS];
    const next = this.words[NEXT];
    if (next === 0 || next > buckets) {
      const wanted = Math.max(LEAST_BUCKETS, Math.ceil(bucketsFor(ids) * GROWTH));
      if (wanted > buckets / 2) return false;
      // Growth that is under way must come to its end first; perhaps no insert will see to that any more.
      if (next === 0) this.resize(wanted);
    }
    this.move(STEP);
    return true;
  }

  private tag(first: number, way: number): number {
    return (this.words[first + way] >>> ID_BITS) | (this.bytes[(first + WAYS) * 4 + way] << 8);
  }

  private put(first: number, tag: number, id: number, instead: number): void {
    const tags = (first + WAYS) * 4;
    const gap = this.gap(first, tag, instead);
    // Newest first; what falls off the end is forgotten.
    for (let way = gap; way > 0; way--) {
      this.words[first + way] = this.words[first + way - 1];
      this.bytes[tags + way] = this.bytes[tags + way - 1];
    }
    this.words[first] = (((tag & 0xff) << ID_BITS) | id) >>> 0;
    this.bytes[tags] = tag >>> 8;
  }

  /** Which entry of a bucket goes: the one that is taken over, the oldest of a feature that has its share, the oldest of all. */
  private gap(first: number, tag: number, instead: number): number {
    let alike = 0;
    for (let way = 0; way < WAYS - 1; way++) {
      const entry = this.words[first + way];
      if (entry === 0) return way;
      if (this.tag(first, way) !== tag) continue;
      if (instead !== 0 && (entry & MAX_ID) === instead) return way;
      if (++alike === MOST_ALIKE) return way;
    }
    return WAYS - 1;
  }

  /** Begins to change the number of buckets. */
  private resize(next: number): void {
    const { words } = this;
    const buckets = words[BUCKETS];
    if (next > buckets) words.fill(0, addressOf(buckets), addressOf(next));
    words[FRONTIER] = next > buckets ? buckets : 0;
    if (next !== buckets) words[NEXT] = next;
  }

  /**
   * Moves the entries of at most `count` buckets to where they are to be: from the last on when there will be more buckets,
   * else from the first on, so that none comes to a place from which entries are still to be moved.
   */
  private move(count: number): void {
    const { words } = this;
    const grows = words[NEXT] > words[BUCKETS];
    const end = grows ? 0 : words[BUCKETS];
    // The newest of each bucket: all would push out what other buckets have brought.
    const kept = grows ? WAYS : Math.max(1, Math.floor((WAYS * words[NEXT]) / words[BUCKETS]));
    for (let left = count; left > 0 && words[FRONTIER] !== end; left--) {
      const bucket = grows ? words[FRONTIER] - 1 : words[FRONTIER];
      const entries = this.take(addressOf(bucket));
      words[FRONTIER] = grows ? bucket : bucket + 1;
      // The lowest hash of the bucket, and from it on the one with the tag.
      const least = Math.ceil((bucket * 2 ** HASH_BITS) / words[BUCKETS]);
      for (let i = Math.max(0, entries - kept); i < entries; i++) {
        const hash = least + ((moved.tags[i] - least) & TAG_MASK);
        this.put(this.bucket(hash), moved.tags[i], moved.ids[i], 0);
      }
    }
    if (words[FRONTIER] !== end) return;
    words[BUCKETS] = words[NEXT];
    words[NEXT] = 0;
  }

  /** Empties a bucket to where entries are moved, the oldest first; how many there are. */
  private take(first: number): number {
    let count = 0;
    for (let way = WAYS - 1; way >= 0; way--) {
      const entry = this.words[first + way];
      if (entry === 0) continue;
      moved.tags[count] = this.tag(first, way);
      moved.ids[count++] = entry & MAX_ID;
    }
    for (let word = 0; word < BUCKET_WORDS; word++) this.words[first + word] = 0;
    return count;
  }

  private bucket(hash: number): number {
    const { words } = this;
    const buckets = words[BUCKETS];
    const next = words[NEXT];
    const frontier = words[FRONTIER];
    const at = placeOf(hash, buckets);
    const isMoved = next !== 0 && (next > buckets ? at >= frontier : at < frontier);
    return addressOf(isMoved ? placeOf(hash, next) : at);
  }
}

const addressOf = (bucket: number): number => HEADER + bucket * BUCKET_WORDS;

const placeOf = (hash: number, buckets: number): number => Math.floor((hash * buckets) / 2 ** HASH_BITS);

/** HASH_BITS bits. */
const hashOf = (feature: number, salt: number, index: number): number =>
  Math.imul(feature ^ Math.imul(salt * FEATURES + index + 1, 0xc2b2ae35), 0x9e3779b1) >>> (32 - HASH_BITS);

/** Adds an id, or moves it one place up each time it turns up again: a small ranking by shared features. */
function addCandidate(ids: Uint32Array, count: number, id: number): number {
  for (let i = 0; i < count; i++) {
    if (ids[i] !== id) continue;
    if (i > 0) {
      ids[i] = ids[i - 1];
      ids[i - 1] = id;
    }
    return count;
  }
  ids[count] = id;
  return count + 1;
}
