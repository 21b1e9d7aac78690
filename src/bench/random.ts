/**
 * A stream of random numbers named by a seed and labels: equal names give equal streams, and one stream's use never
 * shifts another's, so that a longer run begins as a shorter one does.
 */
export class Random {
  private state: number;

  constructor(seed: number, ...labels: (string | number)[]) {
    // FNV-1a over the name; the stream itself is the 32-bit "mulberry" counter generator.
    let hash = 0x811c9dc5;
    for (const char of [seed, ...labels].join('/')) {
      hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193);
    }
    this.state = hash >>> 0;
    this.next();
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Uniform integer in [from, to). */
  integer(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from));
  }

  pick<T>(values: readonly T[]): T {
    return values[this.integer(0, values.length)];
  }

  /** Log-normal with the given median; `sigma` is the deviation of the logarithm. */
  lognormal(median: number, sigma: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.next()));
    return median * Math.exp(sigma * radius * Math.cos(2 * Math.PI * this.next()));
  }

  /** `digits` lower-case hexadecimal digits. */
  hex(digits: number): string {
    return Array.from({ length: digits }, () => this.integer(0, 16).toString(16)).join('');
  }
}
