/** A count below is in the narrow column alone. */
const SPLIT = 128;
/** Names of one object at most: a page that would be one more stays as it is. */
export const MOST_NAMES = SPLIT * 2 ** 16 - 1;

/**
 * How many slots and objects name each object: seven bits, and a flag that says whether the rest is in a wide column. Few
 * objects have so many names, so nearly all of the wide column is a hole: it is never looked at without the flag, for to read
 * there would take memory.
 */
export class RefCounts {
  constructor(
    private readonly narrow: Uint8Array,
    private readonly wide: Uint16Array,
  ) {}

  of(object: number): number {
    const low = this.narrow[object];
    return low < SPLIT ? low : (low % SPLIT) + this.wide[object] * SPLIT;
  }

  /** One more; there must be fewer than MOST_NAMES. */
  add(object: number): void {
    this.set(object, this.of(object) + 1);
  }

  /** One less; how many are left. */
  drop(object: number): number {
    const left = this.of(object) - 1;
    this.set(object, left);
    return left;
  }

  clear(object: number): void {
    this.narrow[object] = 0;
  }

  /** For a restart: none of the objects below `high` has a name. */
  clearAll(high: number): void {
    this.narrow.fill(0, 0, high);
  }

  private set(object: number, count: number): void {
    // What is left in the wide column without the flag means nothing.
    if (count >= SPLIT) this.wide[object] = Math.floor(count / SPLIT);
    this.narrow[object] = count < SPLIT ? count : SPLIT + (count % SPLIT);
  }
}
