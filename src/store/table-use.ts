import { BLOCK } from './layout.js';

/**
 * How many entries of each block of a table are in use, and which blocks may have memory. Kept in the store's memory
 * file, so that all threads can pass over what is empty: to read there would take memory again. Counted anew after a
 * restart.
 */
export class TableUse {
  constructor(
    private readonly live: Uint16Array,
    private readonly touched: Uint8Array,
  ) {}

  get blocks(): number {
    return this.live.length;
  }

  take(entry: number): void {
    const block = Math.floor(entry / BLOCK);
    this.live[block]++;
    this.touched[block] = 1;
  }

  /** Entries that are not in use may have memory. */
  touch(first: number, count: number): void {
    this.touched.fill(1, Math.floor(first / BLOCK), Math.floor((first + count - 1) / BLOCK) + 1);
  }

  drop(entry: number): void {
    this.live[Math.floor(entry / BLOCK)]--;
  }

  /** Forgets what is in use. Entries below `high` may have memory. */
  recount(high: number): void {
    this.live.fill(0);
    this.touched.fill(1, 0, Math.ceil(high / BLOCK));
  }

  /** This entry, or the first of the next block that is not empty: for scans, which look at it if it is below their end. */
  next(entry: number): number {
    if (entry % BLOCK !== 0) return entry;
    let block = entry / BLOCK;
    while (block < this.live.length && this.live[block] === 0) block++;
    return block * BLOCK;
  }

  isEmpty(block: number): boolean {
    return this.live[block] === 0;
  }

  hasMemory(block: number): boolean {
    return this.touched[block] === 1;
  }

  /** End of the last block below `high` that may have memory. */
  end(high: number): number {
    let blocks = Math.ceil(high / BLOCK);
    while (blocks > 0 && this.touched[blocks - 1] === 0) blocks--;
    return blocks * BLOCK;
  }

  gaveBack(block: number): void {
    this.touched[block] = 0;
  }
}
