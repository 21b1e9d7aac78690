import { reserveWords } from '../native/memory.js';

/**
 * A set of numbers that gives out its lowest: what is handed out again stays together at the low end, and the high end of
 * a table empties. A bitmap with a bitmap of its words above it, and so on; 33/32 bits a number. Not of the JS heap.
 */
export class FreeSet {
  private readonly levels: Uint32Array[] = [];

  /** Holds numbers below `size`; empty at first. */
  constructor(size: number) {
    for (let words = size; words > 1 || this.levels.length === 0;) {
      words = Math.ceil(words / 32);
      this.levels.push(reserveWords(words));
    }
  }

  add(number: number): void {
    for (let level = 0, at = number; level < this.levels.length; level++, at >>>= 5) {
      const words = this.levels[level];
      const before = words[at >>> 5];
      words[at >>> 5] = before | (1 << (at & 31));
      if (before !== 0) return;
    }
  }

  delete(number: number): void {
    for (let level = 0, at = number; level < this.levels.length; level++, at >>>= 5) {
      const words = this.levels[level];
      words[at >>> 5] &= ~(1 << (at & 31));
      if (words[at >>> 5] !== 0) return;
    }
  }

  /** The lowest number, or -1 of an empty set. */
  lowest(): number {
    let at = 0;
    for (let level = this.levels.length - 1; level >= 0; level--) {
      const bits = this.levels[level][at];
      if (bits === 0) return -1;
      at = at * 32 + 31 - Math.clz32(bits & -bits);
    }
    return at;
  }
}
