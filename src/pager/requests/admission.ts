/** Reads of slots that somebody will ask the kernel for, once he is let in. */
interface Waiting {
  slots: Uint32Array;
  enter: () => void;
}

/**
 * Pages that may be on their way to somebody who can wait, before the next vector is let in. A tool that comes to one of them
 * waits for all before it, and the kernel cannot tell us: it has asked already. Beyond 128 (the queue of a block device)
 * it even holds back reads of others.
 */
const UNDER_WAY = 32;
/** What was let in and has not come by then was in memory already, ms. */
const ARRIVES_MS = 2;

/** Lets vectors of reads that can wait in one after the other, so that few of their pages are under way at a time. */
export class Admission {
  private readonly waiting: Waiting[] = [];
  /** Pages that were let in and have not come. */
  private coming = 0;
  private letInAt = 0;
  /** Pages that have come and were not answered. */
  private here = 0;

  /** Is anybody waiting to be let in? */
  get busy(): boolean {
    return this.waiting.length > 0;
  }

  /** `enter` is called, now or later, when these reads may be asked for. */
  ask(slots: Uint32Array, enter: () => void, nowMs: number): void {
    this.waiting.push({ slots, enter });
    this.step(nowMs);
  }

  /** So many pages of one read have come. */
  came(pages: number): void {
    this.coming = Math.max(0, this.coming - pages);
    this.here += pages;
  }

  answered(pages: number): void {
    this.here -= pages;
  }

  /** Lets in whoever may enter. */
  step(nowMs: number): void {
    while (this.busy) {
      if (nowMs - this.letInAt >= ARRIVES_MS) this.coming = 0;
      if (this.coming + this.here >= UNDER_WAY) return;
      const { slots, enter } = this.waiting.shift()!;
      this.coming += slots.length;
      this.letInAt = nowMs;
      enter();
    }
  }
}
