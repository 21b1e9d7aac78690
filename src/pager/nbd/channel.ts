import { constants } from 'node:os';
import type { Workspace } from '../../codec/kernels.js';
import { PAGE } from '../../native/libc.js';
import type { Store } from '../../store/store.js';
import type { Attention } from '../requests/attention.js';
import { ANSWERED, Ask, MOST, NONE, type Channel } from '../requests/channel.js';
import { LOST, type Link } from './link.js';
import { MAX_IO, Reply, REPLY_MAGIC, Request, REQUEST_MAGIC, Type } from './protocol.js';

const { EINVAL, EIO, ENOSPC } = constants.errno;

/** The longest request. */
const REQUEST_BYTES = Request.BYTES + MAX_IO;
/** Workspace: a ring of what was received, reads put aside, and the reply, whose data is page aligned. */
const RING_BYTES = 8 * (MAX_IO + PAGE);
const READS_AT = RING_BYTES;
const READ_BYTES = 32;
const DATA_AT = READS_AT + MOST * READ_BYTES + PAGE;
const REPLY_AT = DATA_AT - Reply.BYTES;
export const NBD_BYTES = DATA_AT + MAX_IO;

/**
 * Requests of a stream. A request's number is its offset in the workspace; the word of its magic number becomes that of the
 * connection it came by, for an answer to one that came by another would end this one.
 */
export class NbdChannel implements Channel {
  private disconnected = false;
  /** What is received and not taken yet: `start` to `end`. It may grow to `limit`. */
  private start = 0;
  private end = 0;
  private limit = RING_BYTES;
  /** Bytes still to come of a write that is too long. */
  private excess = 0;
  private connection = 0;
  /** Where the next read that is put aside goes, of MOST places. */
  private place = 0;
  private readonly numbers: DataView;

  constructor(
    private readonly store: Store,
    private readonly workspace: Workspace,
    private readonly link: Link,
  ) {
    this.numbers = new DataView(workspace.bytes.buffer);
  }

  get gone(): boolean {
    return this.disconnected || this.link.gone;
  }

  hasRoom(oldestWrite: number): boolean {
    if (oldestWrite === NONE) {
      this.limit = RING_BYTES;
      if (this.start === this.end || this.start + REQUEST_BYTES > RING_BYTES) this.toBeginning();
      return true;
    }
    // Writes that wait are between the oldest and the start, perhaps around the ring's end.
    this.limit = this.start > oldestWrite ? RING_BYTES : oldestWrite;
    if (this.start + REQUEST_BYTES <= this.limit) return true;
    if (this.start <= oldestWrite || oldestWrite < REQUEST_BYTES) return false;
    this.toBeginning();
    this.limit = oldestWrite;
    return true;
  }

  take(): number {
    for (;;) {
      const request = this.next();
      if (request !== NONE || this.disconnected || !this.fill()) return request;
    }
  }

  ask(request: number): Ask {
    switch (this.type(request)) {
      case Type.READ:
        return Ask.READ;
      case Type.WRITE:
        return Ask.WRITE;
      case Type.TRIM:
      case Type.WRITE_ZEROES:
        return Ask.DISCARD;
      default:
        return Ask.OTHER;
    }
  }

  slot(request: number): number {
    const { numbers } = this;
    const from = request + Request.FROM;
    return (numbers.getUint32(from) * 2 ** 32 + numbers.getUint32(from + 4)) / PAGE;
  }

  pages(request: number): number {
    return this.numbers.getUint32(request + Request.LENGTH) / PAGE;
  }

  putAside(request: number): number {
    const aside = READS_AT + this.place * READ_BYTES;
    this.place = (this.place + 1) % MOST;
    this.workspace.words.copyWithin(aside / 4, request / 4, (request + Request.BYTES) / 4);
    return aside;
  }

  answer(request: number): void {
    if (!this.isCurrent(request)) return;
    switch (this.type(request)) {
      case Type.READ:
        return this.read(request);
      case Type.TRIM:
      case Type.WRITE_ZEROES:
        // Slots with nothing in them read as zeros.
        this.store.discard(this.slot(request), this.pages(request));
        return this.reply(request, 0, 0);
      case Type.FLUSH: // a write that is answered is where it stays
        return this.reply(request, 0, 0);
      default:
        return this.reply(request, EINVAL, 0);
    }
  }

  write(request: number, done: number, limit: number): number {
    const { store } = this;
    const slot = this.slot(request);
    const count = this.pages(request);
    if (!this.isCurrent(request)) return ANSWERED;
    if (!this.fits(slot, count)) return this.finish(request, EINVAL);
    const end = Math.min(count, done + limit);
    for (let i = done; i < end; i++) {
      if (store.write(slot + i, request + Request.BYTES + i * PAGE)) continue;
      // The kernel takes the whole request as failed.
      store.refuse(slot, count);
      return this.finish(request, ENOSPC);
    }
    return end < count ? end : this.finish(request, 0);
  }

  wait(attention: Attention, timeoutMs: number): boolean {
    return this.link.wait(attention, timeoutMs);
  }

  resume(): boolean {
    this.link.replace();
    return true;
  }

  /** The next request of which all has been received, or NONE. */
  private next(): number {
    const { numbers } = this;
    const dropped = Math.min(this.excess, this.end - this.start);
    this.excess -= dropped;
    this.start += dropped;
    const at = this.start;
    if (this.excess > 0 || this.end - at < Request.BYTES) return NONE;
    if (numbers.getUint32(at) !== REQUEST_MAGIC) throw new Error('NBD: what was received is no request');
    const length = this.type(at) === Type.WRITE ? numbers.getUint32(at + Request.LENGTH) : 0;
    const isTooLong = length > MAX_IO;
    if (!isTooLong && this.end - at < Request.BYTES + length) return NONE;
    this.workspace.words[at / 4] = this.connection;
    this.start += Request.BYTES + (isTooLong ? 0 : length);
    if (this.type(at) === Type.DISCONNECT) {
      this.disconnected = true;
      return NONE;
    }
    if (!isTooLong) return at;
    this.excess = length;
    this.reply(at, EINVAL, 0);
    return this.next();
  }

  /** Receives more; false when there is nothing more now. */
  private fill(): boolean {
    const room = this.limit - this.end;
    if (room === 0) return false;
    const length = this.link.receive(this.workspace.address + this.end, room);
    if (length === LOST) {
      // Whatever came by the old connection comes again.
      this.connection++;
      this.end = this.start;
      this.excess = 0;
    } else this.end += length;
    return length > 0;
  }

  private toBeginning(): void {
    this.workspace.bytes.copyWithin(0, this.start, this.end);
    this.end -= this.start;
    this.start = 0;
  }

  private read(request: number): void {
    const slot = this.slot(request);
    const count = this.pages(request);
    if (!this.fits(slot, count)) return this.reply(request, EINVAL, 0);
    for (let i = 0; i < count; i++) {
      if (!this.store.read(slot + i, DATA_AT + i * PAGE)) return this.reply(request, EIO, 0);
    }
    this.reply(request, 0, count * PAGE);
  }

  private finish(request: number, error: number): number {
    this.reply(request, error, 0);
    return ANSWERED;
  }

  private reply(request: number, error: number, bytes: number): void {
    const { numbers, workspace } = this;
    const { words } = workspace;
    numbers.setUint32(REPLY_AT + Reply.MAGIC, REPLY_MAGIC);
    numbers.setUint32(REPLY_AT + Reply.ERROR, error);
    const cookie = (request + Request.COOKIE) / 4;
    words[(REPLY_AT + Reply.COOKIE) / 4] = words[cookie];
    words[(REPLY_AT + Reply.COOKIE) / 4 + 1] = words[cookie + 1];
    this.link.send(workspace.address + REPLY_AT, Reply.BYTES + bytes);
  }

  private isCurrent(request: number): boolean {
    return this.workspace.words[request / 4] === this.connection;
  }

  private type(request: number): number {
    return this.numbers.getUint16(request + Request.TYPE);
  }

  private fits(slot: number, count: number): boolean {
    const whole = Number.isInteger(slot) && Number.isInteger(count);
    return whole && count * PAGE <= MAX_IO && slot + count <= this.store.tables.slots;
  }
}
