/**
 * Which block of the pager's device zram has put the page of a swap slot in, as the log of the device's writes told, and who has
 * claimed the block. zram uses neither a slot 0, where swap has its header, nor a block 0. 10 bytes a slot.
 */
export class BlockTable {
  private readonly blocks: Uint32Array;
  /** By block: the slot it was last written for, also when that slot's page has left it since. */
  private readonly slots: Uint32Array;
  /** By block: the sandbox's tag, 0: nobody. */
  private readonly claimants: Uint16Array;
  /** Behind the highest block seen. */
  private end = 0;

  constructor(slots: number) {
    this.blocks = new Uint32Array(slots);
    this.slots = new Uint32Array(slots);
    this.claimants = new Uint16Array(slots);
  }

  /**
   * While zram was asked to write this slot's page back, the device got writes of these blocks. One is where the page is now;
   * when there are more, somebody else has zram write back too, and none is known to be anybody's.
   */
  wrote(slot: number, blocks: readonly number[]): void {
    this.strange(blocks);
    if (blocks.length !== 1 || slot >= this.blocks.length) return;
    const [block] = blocks;
    this.blocks[slot] = block;
    this.slots[block] = slot;
    this.end = Math.max(this.end, block + 1);
  }

  /** Blocks that were written, it is not known with what. */
  strange(blocks: readonly number[]): void {
    for (const block of blocks) {
      this.left(this.slots[block], block);
      this.slots[block] = 0;
      this.claimants[block] = 0;
    }
  }

  /** Where the slot's page was put; 0: not known. Whether it is there still, only zram knows. */
  blockOf(slot: number): number {
    return slot < this.blocks.length ? this.blocks[slot] : 0;
  }

  /** The slot's page is not in this block. */
  left(slot: number, block: number): void {
    if (this.blocks[slot] === block) this.blocks[slot] = 0;
  }

  claim(block: number, tag: number): void {
    this.claimants[block] = tag;
  }

  isClaimed(block: number, tag: number): boolean {
    return this.claimants[block] === tag;
  }

  /** Blocks claimed for `tag` whose page has left them, or whose slot is none of those that it `shows`; with that slot. */
  unshown(tag: number, shows: (slot: number) => boolean): { block: number; slot: number }[] {
    const found: { block: number; slot: number }[] = [];
    for (let block = 1; block < this.end; block++) {
      if (this.claimants[block] !== tag) continue;
      const slot = this.slots[block];
      if (this.blocks[slot] !== block || !shows(slot)) found.push({ block, slot });
    }
    return found;
  }

  /** The sandbox is gone. */
  forget(tag: number): void {
    for (let block = 1; block < this.end; block++)
      if (this.claimants[block] === tag) this.claimants[block] = 0;
  }

  /** Nothing is known any more. */
  clear(): void {
    this.blocks.fill(0);
    this.slots.fill(0, 0, this.end);
    this.claimants.fill(0, 0, this.end);
    this.end = 0;
  }
}
