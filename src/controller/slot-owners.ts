/**
 * Which sandbox each slot of the device was last claimed for, by the sandbox's tag (1–65535). An entry may be out of
 * date: the slot was freed and given to somebody else. So a conflict is decided by looking again.
 */
export class SlotOwners {
  private readonly tags: Uint16Array;

  constructor(slots: number) {
    this.tags = new Uint16Array(slots);
  }

  /**
   * Takes a slot for `tag`. A slot that another sandbox still shows (both were forked while the page was out) stays with
   * the first: false. `shows` is asked only when there is another.
   */
  take(slot: number, tag: number, shows: (other: number, slot: number) => boolean): boolean {
    if (slot === 0 || slot >= this.tags.length) return false;
    const other = this.tags[slot];
    if (other !== 0 && other !== tag && shows(other, slot)) return false;
    this.tags[slot] = tag;
    return true;
  }

  /** The sandbox is gone. */
  forget(tag: number): void {
    for (let slot = 0; slot < this.tags.length; slot++) if (this.tags[slot] === tag) this.tags[slot] = 0;
  }
}
