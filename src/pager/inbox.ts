import { PAGE } from '../native/libc.js';
import type { Workspace } from '../codec/kernels.js';
import { Announced } from './announced.js';
import { In, MAX_IO, Opcode, READ_BYTES } from './fuse-protocol.js';
import { REPLY_BYTES, type FuseServer } from './fuse-server.js';
import type { ReadLogWriter } from './read-log.js';

/** The largest request. */
export const REQUEST_BYTES = MAX_IO + PAGE;
/** Requests of each kind that can wait; the kernel has no more of them in flight (fuse-server.ts, max_background). */
const MOST = 1024;
/** Pages of a write that are stored between two looks for something more urgent: some 10 µs. */
const STEP_PAGES = 4;

/** Workspace: a ring of requests as they came, expected reads put aside, and the server's reply. */
const RING_BYTES = 8 * REQUEST_BYTES;
const READS_AT = RING_BYTES;
export const REPLY_AT = READS_AT + Math.ceil((MOST * READ_BYTES) / PAGE) * PAGE;
export const FUSE_BYTES = REPLY_AT + REPLY_BYTES;

/**
 * The kernel's requests. A tool waits for each read but those of a prefetch, and nobody for a write. So reads are answered
 * at once, and what is expected or written waits here, to be done a little at a time while no other read is there. The
 * kernel reads no page whose write it does not know to be complete, so a read may overtake any write.
 */
export class Inbox {
  /** Offsets of the writes, oldest first, and of the end of the newest. */
  private readonly writes = new Queue();
  private end = 0;
  /** Pages of the oldest write that are stored. */
  private done = 0;
  private readonly reads = new Queue();
  private readonly announced: Announced;
  private readsTurn = false;

  constructor(
    private readonly server: FuseServer,
    private readonly workspace: Workspace,
    /** Reads a request of at most REQUEST_BYTES to a native address; returns its length, less than 1 when there is none. */
    private readonly next: (address: number) => number,
    private readonly slots: number,
    /** Is told of every slot that is read and was not expected. */
    private readonly log: Pick<ReadLogWriter, 'note'>,
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
    if (this.writes.count === 0) this.end = 0;
    const first = this.writes.count === 0 ? RING_BYTES : this.writes.first;
    if (this.end + REQUEST_BYTES <= (this.end > first ? RING_BYTES : first)) return true;
    if (this.end <= first || first < REQUEST_BYTES) return false;
    this.end = 0;
    return true;
  }

  /** Reads one request and answers it, or puts it aside. False: there was none; errno says why. Only after `makeRoom`. */
  receive(): boolean {
    const at = this.end;
    if (this.next(this.workspace.address + at) <= 0) return false;
    const { words } = this.workspace;
    const opcode = words[(at + In.OPCODE) / 4];
    if (opcode === Opcode.WRITE) {
      this.writes.push(at);
      this.end = at + Math.ceil(words[(at + In.LENGTH) / 4] / 16) * 16;
    } else if (opcode === Opcode.READ && this.isExpected(at)) {
      const aside = READS_AT + this.reads.end * READ_BYTES;
      words.copyWithin(aside / 4, at / 4, (at + READ_BYTES) / 4);
      this.reads.push(aside);
    } else {
      // A discard after a write of the same slots, never before it.
      if (opcode === Opcode.FALLOCATE) while (this.storeNext());
      this.server.answer(at);
    }
    return true;
  }

  /** Does a step of what waits: reads and writes take turns. False: nothing waits. */
  work(): boolean {
    this.readsTurn = !this.readsTurn;
    return this.readsTurn ? this.answerNext() || this.storeNext() : this.storeNext() || this.answerNext();
  }

  private answerNext(): boolean {
    if (this.reads.count === 0) return false;
    this.server.answer(this.reads.first);
    this.reads.shift();
    return true;
  }

  private storeNext(): boolean {
    if (this.writes.count === 0) return false;
    this.done = this.server.write(this.writes.first, this.done, STEP_PAGES);
    if (this.done >= 0) return true;
    this.done = 0;
    this.writes.shift();
    return true;
  }

  /**
   * Is the first page of a read expected? What is read is not expected any more. The kernel joins reads of slots that lie
   * together, so some pages of one may be expected and others not.
   */
  private isExpected(at: number): boolean {
    const { words } = this.workspace;
    const first = (words[(at + In.OFFSET) / 4] + words[(at + In.OFFSET) / 4 + 1] * 2 ** 32) / PAGE;
    const end = Math.min(this.slots, first + words[(at + In.SIZE) / 4] / PAGE);
    let expected = false;
    for (let slot = first; slot < end; slot++) {
      if (!this.announced.take(slot)) this.log.note(slot);
      else if (slot === first) expected = true;
    }
    return expected;
  }
}

/** Offsets, first in first out, without allocating. */
class Queue {
  private readonly offsets = new Uint32Array(MOST);
  private at = 0;
  count = 0;

  get first(): number {
    return this.offsets[this.at];
  }

  /** Where the next one goes, of MOST places. */
  get end(): number {
    return (this.at + this.count) % MOST;
  }

  push(offset: number): void {
    this.offsets[this.end] = offset;
    this.count++;
  }

  shift(): void {
    this.at = (this.at + 1) % MOST;
    this.count--;
  }
}
