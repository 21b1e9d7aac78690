/** Words before the entries; the first holds how many buckets there are, a power of two. */
const HEADER = 16;
const BUCKETS = 0;
/**
 * A bucket: a word an entry (the id, and the low byte of its tag on top), then the tags' high bytes. A tag is 16 bits
 * of the super-feature's hash; what they do not share with the bucket's number tells strangers apart.
 */
const WAYS = 8;
const BUCKET_WORDS = WAYS + WAYS / 4;
const ID_BITS = 24;
/** Larger ids are not taken in. */
const MAX_ID = 2 ** ID_BITS - 1;
/** The tag begins at this bit of the hash: all bits below it are in every bucket's number. */
const TAG_AT = 10;
const LEAST_BUCKETS = 2 ** TAG_AT;

/** Super-features of a sketch. */
export const FEATURES = 4;
/** Most candidates one look-up can give. */
export const MAX_CANDIDATES = FEATURES * WAYS;

/** Words an index for `bases` ids needs when it is full. */
export const sketchIndexWords = (bases: number): number => HEADER + BUCKET_WORDS * bucketsFor(bases);

const bucketsFor = (bases: number): number =>
  2 ** Math.ceil(Math.log2(Math.max(LEAST_BUCKETS, (bases * FEATURES) / WAYS)));

/**
 * Finds pages that look alike: super-feature → id, eight ways a bucket, the oldest entry goes. It forgets, it may
 * point at what no longer exists, and now and then it names a stranger; the caller verifies every candidate. One
 * thread writes.
 */
export class SketchIndex {
  private readonly limit: number;
  private readonly bytes: Uint8Array;

  constructor(private readonly words: Uint32Array) {
    this.limit = 2 ** Math.floor(Math.log2((words.length - HEADER) / BUCKET_WORDS));
    this.bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
  }

  reset(bases = 1024): void {
    const buckets = Math.min(bucketsFor(bases), this.limit);
    this.words.fill(0, 0, HEADER + BUCKET_WORDS * Math.max(buckets, this.words[BUCKETS]));
    this.words[BUCKETS] = buckets;
  }

  /** The words in use: what a file needs to hold the index. */
  used(): Uint32Array {
    return this.words.subarray(0, HEADER + BUCKET_WORDS * this.words[BUCKETS]);
  }

  /**
   * `features` holds the sketch from index `at` on; `salt` keeps domains apart. `ids`: how many ids there are now; the
   * index grows with them, not with what has come and gone.
   */
  insert(features: Uint32Array, at: number, salt: number, id: number, ids: number): void {
    if (id > MAX_ID) return;
    if (ids * FEATURES > this.words[BUCKETS] * WAYS * 0.75) this.grow();
    for (let i = 0; i < FEATURES; i++) {
      const hash = hashOf(features[at + i], salt, i);
      this.put(this.bucket(hash), tagOf(hash), id);
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
      const tag = tagOf(hash);
      for (let way = 0; way < WAYS; way++) {
        const entry = this.words[first + way];
        if (entry !== 0 && this.tag(first, way) === tag) count = addCandidate(ids, count, entry & MAX_ID);
      }
    }
    return count;
  }

  private tag(first: number, way: number): number {
    return (this.words[first + way] >>> ID_BITS) | (this.bytes[(first + WAYS) * 4 + way] << 8);
  }

  private put(first: number, tag: number, id: number): void {
    const tags = (first + WAYS) * 4;
    // Newest first; what falls off the end is forgotten.
    this.words.copyWithin(first + 1, first, first + WAYS - 1);
    this.bytes.copyWithin(tags + 1, tags, tags + WAYS - 1);
    this.words[first] = (((tag & 0xff) << ID_BITS) | id) >>> 0;
    this.bytes[tags] = tag >>> 8;
  }

  /** Halves the index when the bases there are fill less than an eighth of it; true when it did. */
  shrink(ids: number): boolean {
    const buckets = this.words[BUCKETS] / 2;
    if (buckets < LEAST_BUCKETS || ids * FEATURES > (buckets * 2 * WAYS) / 8) return false;
    const old = new SketchIndex(this.words.slice(0, HEADER + 2 * buckets * BUCKET_WORDS));
    this.words[BUCKETS] = buckets;
    this.words.fill(0, HEADER, HEADER + 2 * buckets * BUCKET_WORDS);
    // The oldest of both buckets first: what does not fit is forgotten.
    for (let way = WAYS - 1; way >= 0; way--) {
      for (let bucket = 0; bucket < 2 * buckets; bucket++) {
        const first = HEADER + bucket * BUCKET_WORDS;
        const entry = old.words[first + way];
        if (entry !== 0)
          this.put(HEADER + (bucket & (buckets - 1)) * BUCKET_WORDS, old.tag(first, way), entry & MAX_ID);
      }
    }
    return true;
  }

  /** Twice as many buckets: the next bit of an entry's tag says which of two it is in from now on. */
  private grow(): void {
    const buckets = this.words[BUCKETS];
    if (buckets * 2 > this.limit) return;
    const used = HEADER + buckets * BUCKET_WORDS;
    const old = new SketchIndex(this.words.slice(0, used));
    this.words.fill(0, HEADER, HEADER + 2 * buckets * BUCKET_WORDS);
    this.words[BUCKETS] = buckets * 2;
    for (let bucket = 0; bucket < buckets; bucket++) {
      const first = HEADER + bucket * BUCKET_WORDS;
      for (let way = WAYS - 1; way >= 0; way--) {
        const entry = old.words[first + way];
        if (entry === 0) continue;
        const tag = old.tag(first, way);
        const to = ((tag * LEAST_BUCKETS) & buckets) === 0 ? bucket : bucket + buckets;
        this.put(HEADER + to * BUCKET_WORDS, tag, entry & MAX_ID);
      }
    }
  }

  private bucket(hash: number): number {
    return HEADER + (hash & (this.words[BUCKETS] - 1)) * BUCKET_WORDS;
  }
}

const tagOf = (hash: number): number => (hash >>> TAG_AT) & 0xffff;

/** 26 bits. */
const hashOf = (feature: number, salt: number, index: number): number =>
  Math.imul(feature ^ Math.imul(salt * FEATURES + index + 1, 0xc2b2ae35), 0x9e3779b1) >>> 6;

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
