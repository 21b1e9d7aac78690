/** Words before the entries; the first holds how many buckets there are, a power of two. */
const HEADER = 16;
const BUCKETS = 0;
/** Entries of a bucket; an entry is two words: the super-feature and the id. */
const WAYS = 4;
const BUCKET_WORDS = WAYS * 2;

/** Super-features of a sketch. */
export const FEATURES = 4;
/** Most candidates one look-up can give. */
export const MAX_CANDIDATES = FEATURES * WAYS;

/** Words an index for `bases` ids needs when it is full. */
export const sketchIndexWords = (bases: number): number => HEADER + BUCKET_WORDS * bucketsFor(bases);

const bucketsFor = (bases: number): number =>
  2 ** Math.ceil(Math.log2(Math.max(2, (bases * FEATURES) / WAYS)));

/**
 * Finds pages that look alike: super-feature → id, four ways a bucket, the oldest entry goes. It forgets and it may
 * point at what no longer exists; the caller verifies every candidate. One thread writes.
 */
export class SketchIndex {
  private readonly limit: number;

  constructor(private readonly words: Uint32Array) {
    this.limit = 2 ** Math.floor(Math.log2((words.length - HEADER) / BUCKET_WORDS));
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
    if (ids * FEATURES > this.words[BUCKETS] * WAYS * 0.75) this.grow();
    for (let i = 0; i < FEATURES; i++) this.put(salted(features[at + i], salt, i), id);
  }

  /**
   * Ids that share a super-feature, those sharing most first, into `ids` from 0 on; returns how many.
   * `ids` has room for MAX_CANDIDATES.
   */
  find(features: Uint32Array, at: number, salt: number, ids: Uint32Array): number {
    let count = 0;
    for (let i = 0; i < FEATURES; i++) {
      const feature = salted(features[at + i], salt, i);
      let entry = this.bucket(feature);
      for (let way = 0; way < WAYS; way++, entry += 2) {
        if (this.words[entry] !== feature) continue;
        count = addCandidate(ids, count, this.words[entry + 1]);
      }
    }
    return count;
  }

  private put(feature: number, id: number): void {
    const first = this.bucket(feature);
    // Newest first; what falls off the end is forgotten.
    this.words.copyWithin(first + 2, first, first + BUCKET_WORDS - 2);
    this.words[first] = feature;
    this.words[first + 1] = id;
  }

  private grow(): void {
    const buckets = this.words[BUCKETS];
    if (buckets * 2 > this.limit) return;
    const old = this.words.slice(HEADER, HEADER + buckets * BUCKET_WORDS);
    this.words.fill(0, HEADER, HEADER + 2 * buckets * BUCKET_WORDS);
    this.words[BUCKETS] = buckets * 2;
    for (let entry = old.length - 2; entry >= 0; entry -= 2) {
      if (old[entry + 1] !== 0) this.put(old[entry], old[entry + 1]);
    }
  }

  private bucket(feature: number): number {
    return HEADER + ((Math.imul(feature, 0x9e3779b1) >>> 8) % this.words[BUCKETS]) * BUCKET_WORDS;
  }
}

const salted = (feature: number, salt: number, index: number): number =>
  (feature ^ Math.imul(salt * FEATURES + index + 1, 0xc2b2ae35)) >>> 0;

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
