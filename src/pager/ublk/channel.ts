import { constants } from 'node:os';
import type { Workspace } from '../../codec/kernels.js';
import { PAGE } from '../../native/libc.js';
import type { Store } from '../../store/store.js';
import type { Attention } from '../requests/attention.js';
import { ANSWERED, Ask, type Channel } from '../requests/channel.js';
import { MAX_IO, Operation, Request, SECTOR } from './protocol.js';
import type { RequestQueue } from './queue.js';

const { EINVAL, EIO, ENOSPC, EOPNOTSUPP } = constants.errno;
const SECTORS = PAGE / SECTOR;

/** Workspace: the pages of the answer, or of the piece of a write, that is in hand. */
export const UBLK_BYTES = MAX_IO;

/** Requests of a ublk queue; a request's number is its tag. Data of writes stays in the kernel until they are stored. */
export class UblkChannel implements Channel {
  constructor(
    private readonly store: Store,
    private readonly workspace: Workspace,
    private readonly queue: RequestQueue,
    /** Lets the queue go on where a dead server left it. */
    private readonly recover: () => void,
  ) {}

  get gone(): boolean {
    return this.queue.gone;
  }

  hasRoom(): boolean {
    return true; // what waits takes none of ours, and there are fewer tags than places to note them
  }

  take(): number {
    return this.queue.next();
  }

  ask(tag: number): Ask {
    switch (this.operation(tag)) {
      case Operation.READ:
        return Ask.READ;
      case Operation.WRITE:
        return Ask.WRITE;
      case Operation.DISCARD:
      case Operation.WRITE_ZEROES:
        return Ask.DISCARD;
      default:
        return Ask.OTHER;
    }
  }

  slot(tag: number): number {
    const { descriptors } = this.queue;
    const at = tag * Request.WORDS + Request.START;
    return (descriptors[at] + descriptors[at + 1] * 2 ** 32) / SECTORS;
  }

  pages(tag: number): number {
    return this.queue.descriptors[tag * Request.WORDS + Request.SECTORS] / SECTORS;
  }

  putAside(tag: number): number {
    return tag;
  }

  answer(tag: number): void {
    switch (this.operation(tag)) {
      case Operation.READ:
        return this.queue.complete(tag, this.read(tag));
      case Operation.DISCARD:
      case Operation.WRITE_ZEROES:
        // Slots with nothing in them read as zeros.
        this.store.discard(this.slot(tag), this.pages(tag));
        return this.queue.complete(tag, 0);
      case Operation.FLUSH: // a write that is answered is where it stays
        return this.queue.complete(tag, 0);
      default:
        return this.queue.complete(tag, -EOPNOTSUPP);
    }
  }

  write(tag: number, done: number, limit: number): number {
    const { queue, store, workspace } = this;
    const slot = this.slot(tag);
    const count = this.pages(tag);
    if (!this.fits(slot, count)) return this.end(tag, -EINVAL);
    const end = Math.min(count, done + limit);
    if (!queue.fetch(tag, done * PAGE, workspace.address, (end - done) * PAGE)) {
      store.refuse(slot, count);
      return this.end(tag, -EIO);
    }
    for (let i = done; i < end; i++) {
      if (store.write(slot + i, (i - done) * PAGE)) continue;
      // The kernel takes the whole request as failed.
      store.refuse(slot, count);
      return this.end(tag, -ENOSPC);
    }
    return end < count ? end : this.end(tag, count * PAGE);
  }

  wait(attention: Attention, timeoutMs: number): boolean {
    return this.queue.wait(attention, timeoutMs);
  }

  resume(): boolean {
    this.recover();
    return true;
  }

  /** Result of a READ. */
  private read(tag: number): number {
    const slot = this.slot(tag);
    const count = this.pages(tag);
    if (!this.fits(slot, count)) return -EINVAL;
    for (let i = 0; i < count; i++) {
      if (!this.store.read(slot + i, i * PAGE)) return -EIO;
    }
    return this.queue.give(tag, this.workspace.address, count * PAGE) ? count * PAGE : -EIO;
  }

  private end(tag: number, result: number): number {
    this.queue.complete(tag, result);
    return ANSWERED;
  }

  private operation(tag: number): number {
    return this.queue.descriptors[tag * Request.WORDS + Request.OPERATION] & 0xff;
  }

  private fits(slot: number, count: number): boolean {
    const whole = Number.isInteger(slot) && Number.isInteger(count);
    return whole && count * PAGE <= MAX_IO && slot + count <= this.store.tables.slots;
  }
}
