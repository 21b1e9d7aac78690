/** Slots, a bit each. One thread writes, any may read. */
export class SlotSet {
  constructor(private readonly bits: Uint8Array) {}

  has(slot: number): boolean {
    return (this.bits[slot >> 3] & (1 << (slot & 7))) !== 0;
  }

  set(slot: number, member: boolean): void {
    const bit = 1 << (slot & 7);
    if (member) this.bits[slot >> 3] |= bit;
    else this.bits[slot >> 3] &= ~bit;
  }
}
