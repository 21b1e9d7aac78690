const WORD = 2 ** 32;

/**
 * Whose page each slot of the device has, as was last seen: the sandbox's tag (1–65535) and the page number. An entry may be
 * out of date: the slot was freed and given to somebody else. So a conflict is decided by looking again. 8 bytes a slot.
 */
export class SlotOwners {
  private readonly tags: Uint16Array;
  private readonly low: Uint32Array;
  private readonly high: Uint16Array;

  constructor(slots: number) {
    this.tags = new Uint16Array(slots);
    this.low = new Uint32Array(slots);
    this.high = new Uint16Array(slots);
  }

  /**
   * Takes a slot for `page` of `tag`. A slot that another sandbox still shows (both were forked while the page was out) stays
   * with the first: false. `shows` is asked only when there is another.
   */
  take(slot: number, tag: number, page: number, shows: (other: number, slot: number) => boolean): boolean {
    if (slot === 0 || slot >= this.tags.length) return false;
    const other = this.tags[slot];
    if (other !== 0 && other !== tag && shows(other, slot)) return false;
    this.tags[slot] = tag;
    this.low[slot] = page % WORD;
    this.high[slot] = page / WORD;
    return true;
  }

  /** 0: nobody's. */
  tagOf(slot: number): number {
    return slot < this.tags.length ? this.tags[slot] : 0;
  }

  /** Of a slot that is somebody's. */
  pageOf(slot: number): number {
    return this.high[slot] * WORD + this.low[slot];
  }

  /** No slot is what it was. */
  clear(): void {
    this.tags.fill(0);
  }

  /** The sandbox is gone. */
  forget(tag: number): void {
    for (let slot = 0; slot < this.tags.length; slot++) if (this.tags[slot] === tag) this.tags[slot] = 0;
  }
}
