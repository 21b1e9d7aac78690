/** Words before the entries: capacity (a power of two), entries in use. */
const HEADER = 16;
const CAPACITY = 0;
const COUNT = 1;
/** Share of the capacity in use from which the index grows: a search that finds nothing looks at some nine entries then. */
const FULL = 0.75;

/** Capacity to begin with, and at least. */
const INITIAL = 4096;

/** Words an index of at most `entries` entries needs when it is full. */
export const hashIndexWords = (entries: number): number =>
  HEADER + 2 ** Math.ceil(Math.log2(Math.max(2, entries * 2)));

/**
 * Finds what has a given content hash: open addressing with linear probing over u32 ids (0 is empty). Keys are not
 * stored; they are read from the columns the ids point into. One thread writes. Others may look things up at the
 * same time and can miss or get a wrong id: they verify what they find.
 */
export class HashIndex {
  /** Largest capacity that fits the words. */
  private readonly limit: number;

  /**
   * `domains` null: one domain only (a template pack). `initial`: capacity to begin with; the index doubles when it
   * is three quarters full, so that a small store has a small index.
   */
  constructor(
    private readonly words: Uint32Array,
    private readonly hashLow: Uint32Array,
    private readonly hashHigh: Uint32Array,
    private readonly domains: Uint16Array | null,
  ) {
    this.limit = 2 ** Math.floor(Math.log2(words.length - HEADER));
  }

  /** Empties the index; for the writer. */
  reset(initial = INITIAL): void {
    const capacity = Math.min(initial, this.limit);
    this.words.fill(0, 0, HEADER + Math.max(capacity, this.words[CAPACITY]));
    this.words[CAPACITY] = capacity;
  }

  /** The words in use: what a file needs to hold the index. */
  used(): Uint32Array {
    return this.words.subarray(0, HEADER + this.words[CAPACITY]);
  }

  /** Id with this hash in this domain, or 0. Equal hashes do not prove equal pages. */
  find(low: number, high: number, domain: number): number {
    const mask = this.words[CAPACITY] - 1;
    for (
      let at = place(low, high, domain) & mask, probes = 0;
      probes <= mask;
      at = (at + 1) & mask, probes++
    ) {
      const id = this.words[HEADER + at];
      if (id === 0) return 0;
      if (this.hashLow[id] === low && this.hashHigh[id] === high && this.domainOf(id) === domain) return id;
    }
    return 0;
  }

  insert(id: number): void {
    if (this.words[COUNT] >= this.words[CAPACITY] * FULL && !this.grow()) return;
    this.put(id);
    this.words[COUNT]++;
  }

  remove(id: number): void {
    const mask = this.words[CAPACITY] - 1;
    let at = this.home(id) & mask;
    while (this.words[HEADER + at] !== id) {
      if (this.words[HEADER + at] === 0) return;
      at = (at + 1) & mask;
    }
    // Close the gap: move back whatever a probe would no longer reach.
    for (let from = (at + 1) & mask; ; from = (from + 1) & mask) {
      const other = this.words[HEADER + from];
      if (other === 0) break;
      if (((from - this.home(other)) & mask) >= ((from - at) & mask)) {
        this.words[HEADER + at] = other;
        at = from;
      }
    }
    this.words[HEADER + at] = 0;
    this.words[COUNT]--;
  }

  /** Halves the index when seven eighths of it are empty; true when it did. Readers may miss an id meanwhile. */
  shrink(): boolean {
    const capacity = this.words[CAPACITY];
    if (capacity <= INITIAL || this.words[COUNT] > capacity / 8) return false;
    const ids = this.words.slice(HEADER, HEADER + capacity);
    this.words[CAPACITY] = capacity / 2;
    this.words.fill(0, HEADER, HEADER + capacity);
    for (const id of ids) if (id !== 0) this.put(id);
    return true;
  }

  private grow(): boolean {
    const capacity = this.words[CAPACITY];
    if (capacity * 2 > this.limit) return this.words[COUNT] < capacity - capacity / 8;
    const ids = this.words.slice(HEADER, HEADER + capacity);
    this.words.fill(0, HEADER, HEADER + capacity * 2);
    this.words[CAPACITY] = capacity * 2;
    for (const id of ids) if (id !== 0) this.put(id);
    return true;
  }

  private put(id: number): void {
    const mask = this.words[CAPACITY] - 1;
    let at = this.home(id) & mask;
    while (this.words[HEADER + at] !== 0) at = (at + 1) & mask;
    this.words[HEADER + at] = id;
  }

  private home(id: number): number {
    return place(this.hashLow[id], this.hashHigh[id], this.domainOf(id));
  }

  private domainOf(id: number): number {
    return this.domains === null ? 0 : this.domains[id];
  }
}

const place = (low: number, high: number, domain: number): number =>
  (low ^ Math.imul(high, 0x9e3779b1) ^ Math.imul(domain, 0x85ebca6b)) >>> 0;
