import { createDigest, freeDigest } from '../native/zstd.js';

/** Digests kept: refinement goes through a mapping in order, so that the next page nearly always needs the last one. */
const MOST = 3;

interface Entry {
  of: unknown;
  number: number;
  digest: number;
}

/** The prefixes a refine worker used last, ready to be used again. */
export class Digests {
  private readonly entries: Entry[] = [];

  constructor(private readonly level: number) {}

  /**
   * Digest of `length` bytes at a native address, which are always the same for the same `number` of the same thing. 0
   * when libzstd has no memory for it.
   */
  get(of: unknown, number: number, address: number, length: number): number {
    const known = this.entries.find((entry) => entry.of === of && entry.number === number);
    if (known !== undefined) return known.digest;
    const digest = createDigest(address, length, this.level);
    if (digest === 0) return 0;
    this.entries.push({ of, number, digest });
    if (this.entries.length > MOST) freeDigest(this.entries.shift()!.digest);
    return digest;
  }
}
