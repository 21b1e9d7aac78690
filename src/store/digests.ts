/** Digests kept: refinement goes through a mapping in order, so that the next page nearly always needs the last one. */
const MOST = 3;

interface Entry {
  of: unknown;
  number: number;
  digest: number;
}

/** What libzstd makes of a prefix or dictionary: how, and how it is freed. */
export interface DigestMaker {
  /** Of bytes at a native address; 0 when there is no memory for it. */
  create(bytes: number, length: number): number;
  free(digest: number): void;
}

/** The prefixes that were used last, ready to be used again. */
export class Digests {
  private readonly entries: Entry[] = [];

  constructor(private readonly maker: DigestMaker) {}

  /**
   * Digest of `length` bytes at a native address, which are always the same for the same `number` of the same thing. 0
   * when libzstd has no memory for it.
   */
  get(of: unknown, number: number, address: number, length: number): number {
    const known = this.find(of, number);
    return known === 0 ? this.make(of, number, address, length) : known;
  }

  /** The digest that was made for it lately, else 0. */
  find(of: unknown, number: number): number {
    // The data loop asks for each page: nothing is allocated here.
    for (let i = 0; i < this.entries.length; i++) {
      const entry = this.entries[i];
      if (entry.of === of && entry.number === number) return entry.digest;
    }
    return 0;
  }

  /** Makes it anew. */
  make(of: unknown, number: number, address: number, length: number): number {
    const digest = this.maker.create(address, length);
    if (digest === 0) return 0;
    this.entries.push({ of, number, digest });
    if (this.entries.length > MOST) this.maker.free(this.entries.shift()!.digest);
    return digest;
  }
}
