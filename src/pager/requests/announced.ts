import { SlotSet } from '../../store/slot-set.js';

/** An announcement holds so long, ms: what has not been read by then, because it was there already, is not read for it any more. */
const HOLDS_MS = 2000;
/** Announcements that hold at a time; of more the oldest ends early. */
const MOST = 1024;

/** Slots that somebody has said he will read, and can wait for. Each counts for one read. */
export class Announced {
  private readonly set: SlotSet;
  private readonly holding: { slots: Uint32Array; untilMs: number }[] = [];

  constructor(private readonly slots: number) {
    this.set = new SlotSet(new Uint8Array(Math.ceil(slots / 8)));
  }

  add(slots: Uint32Array, nowMs: number): void {
    for (const slot of slots) if (slot < this.slots) this.set.set(slot, true);
    this.holding.push({ slots, untilMs: nowMs + HOLDS_MS });
    if (this.holding.length > MOST) this.end();
  }

  /** A slot is read: had that been announced? */
  take(slot: number): boolean {
    if (!this.set.has(slot)) return false;
    this.set.set(slot, false);
    return true;
  }

  /** Ends what has held long enough. */
  age(nowMs: number): void {
    while (this.holding.length > 0 && this.holding[0].untilMs <= nowMs) this.end();
  }

  private end(): void {
    for (const slot of this.holding.shift()!.slots) if (slot < this.slots) this.set.set(slot, false);
  }
}
