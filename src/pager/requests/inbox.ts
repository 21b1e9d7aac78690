import { Announced } from './announced.js';
import { ANSWERED, Ask, MOST, NONE, STEP_PAGES, type Channel } from './channel.js';
import type { SlotLogWriter } from './slot-log.js';

/**
 * The kernel's requests. A tool waits for each read but those of a prefetch, and nobody for a write. So reads are answered
 * at once, and what is expected or written waits here, to be done a little at a time while no other read is there. The
 * kernel reads no page whose write it does not know to be complete, so a read may overtake any write.
 */
export class Inbox {
  private readonly writes = new Queue();
  /** Pages of the oldest write that are stored. */
  private done = 0;
  private readonly reads = new Queue();
  private readonly announced: Announced;
  private readsTurn = false;

  constructor(
    private readonly channel: Channel,
    private readonly slots: number,
    /** Is told of every slot that is read and was not expected. */
    private readonly log: Pick<SlotLogWriter, 'note'>,
    /** Is told of every slot that is written, before the kernel gets its answer. */
    private readonly written: Pick<SlotLogWriter, 'note'>,
  ) {
    this.announced = new Announced(slots);
  }

  /** These slots are about to be read by somebody who can wait. */
  expect(slots: Uint32Array): void {
    this.announced.add(slots, performance.now());
  }

  /** Forgets what was expected and has not come. */
  age(): void {
    this.announced.age(performance.now());
  }

  /** Finds a place for a request of any kind. False: what waits must be done first. */
  makeRoom(): boolean {
    if (this.reads.count === MOST || this.writes.count === MOST) return false;
    return this.channel.hasRoom(this.writes.count === 0 ? NONE : this.writes.first);
  }

  /** Takes one request and answers it, or puts it aside. False: there was none. Only after `makeRoom`. */
  receive(): boolean {
    const { channel } = this;
    const request = channel.take();
    if (request === NONE) return false;
    const ask = channel.ask(request);
    if (ask === Ask.WRITE) {
      this.noteWrite(request);
      this.writes.push(request);
    } else if (ask === Ask.READ && this.isExpected(request)) {
      this.reads.push(channel.putAside(request));
    } else {
      // A discard after a write of the same slots, never before it.
      if (ask === Ask.DISCARD) while (this.storeNext());
      channel.answer(request);
    }
    return true;
  }

  /** Does a step of what waits: reads and writes take turns. False: nothing waits. */
  work(): boolean {
    this.readsTurn = !this.readsTurn;
    return this.readsTurn ? this.answerNext() || this.storeNext() : this.storeNext() || this.answerNext();
  }

  private noteWrite(request: number): void {
    const first = this.channel.slot(request);
    const end = first + this.channel.pages(request);
    for (let slot = first; slot < end; slot++) this.written.note(slot);
  }

  private answerNext(): boolean {
    if (this.reads.count === 0) return false;
    this.channel.answer(this.reads.first);
    this.reads.shift();
    return true;
  }

  private storeNext(): boolean {
    if (this.writes.count === 0) return false;
    this.done = this.channel.write(this.writes.first, this.done, STEP_PAGES);
    if (this.done !== ANSWERED) return true;
    this.done = 0;
    this.writes.shift();
    return true;
  }

  /**
   * Is the first page of a read expected? What is read is not expected any more. The kernel joins reads of slots that lie
   * together, so some pages of one may be expected and others not.
   */
  private isExpected(request: number): boolean {
    const first = this.channel.slot(request);
    const end = Math.min(this.slots, first + this.channel.pages(request));
    let expected = false;
    for (let slot = first; slot < end; slot++) {
      if (!this.announced.take(slot)) this.log.note(slot);
      else if (slot === first) expected = true;
    }
    return expected;
  }
}

/** Requests, first in first out, without allocating. */
class Queue {
  private readonly requests = new Uint32Array(MOST);
  private at = 0;
  count = 0;

  get first(): number {
    return this.requests[this.at];
  }

  push(request: number): void {
    this.requests[(this.at + this.count) % MOST] = request;
    this.count++;
  }

  shift(): void {
    this.at = (this.at + 1) % MOST;
    this.count--;
  }
}
