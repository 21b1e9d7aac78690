import { constants } from 'node:os';
import type { Workspace } from '../../codec/kernels.js';
import { errno } from '../../native/errno.js';
import { PAGE } from '../../native/libc.js';
import type { Attention } from '../requests/attention.js';
import { Ask, MOST, NONE, type Channel } from '../requests/channel.js';
import { In, MAX_IO, Opcode, READ_BYTES } from './protocol.js';
import { REPLY_BYTES, type FuseServer } from './server.js';

/** The largest request. */
export const REQUEST_BYTES = MAX_IO + PAGE;
/** Workspace: a ring of requests as they came, reads put aside, and the server's reply. */
const RING_BYTES = 8 * REQUEST_BYTES;
const READS_AT = RING_BYTES;
export const REPLY_AT = READS_AT + Math.ceil((MOST * READ_BYTES) / PAGE) * PAGE;
export const FUSE_BYTES = REPLY_AT + REPLY_BYTES;

const { EAGAIN, EINTR, ENODEV, ENOENT } = constants.errno;

/** Requests of a FUSE channel. A request's number is its offset in the workspace. */
export class FuseChannel implements Channel {
  gone = false;
  /** Where the next request goes: the end of the newest write. */
  private end = 0;
  /** Where the next read that is put aside goes, of MOST places. */
  private place = 0;

  constructor(
    private readonly server: FuseServer,
    private readonly workspace: Workspace,
    private readonly fd: number,
    /** Reads a request of at most REQUEST_BYTES to a native address; returns its length, less than 1 when there is none. */
    private readonly next: (address: number) => number,
  ) {}

  hasRoom(oldestWrite: number): boolean {
    if (oldestWrite === NONE) this.end = 0;
    const first = oldestWrite === NONE ? RING_BYTES : oldestWrite;
    if (this.end + REQUEST_BYTES <= (this.end > first ? RING_BYTES : first)) return true;
    if (this.end <= first || first < REQUEST_BYTES) return false;
    this.end = 0;
    return true;
  }

  take(): number {
    const at = this.end;
    const length = this.next(this.workspace.address + at);
    if (length < 0) this.notice(errno());
    if (length <= 0) return NONE;
    if (this.ask(at) === Ask.WRITE) this.end = at + Math.ceil(this.word(at + In.LENGTH) / 16) * 16;
    return at;
  }

  ask(request: number): Ask {
    switch (this.word(request + In.OPCODE)) {
      case Opcode.READ:
        return Ask.READ;
      case Opcode.WRITE:
        return Ask.WRITE;
      case Opcode.FALLOCATE:
        return Ask.DISCARD;
      default:
        return Ask.OTHER;
    }
  }

  slot(request: number): number {
    return (this.word(request + In.OFFSET) + this.word(request + In.OFFSET + 4) * 2 ** 32) / PAGE;
  }

  pages(request: number): number {
    return this.word(request + In.SIZE) / PAGE;
  }

  putAside(request: number): number {
    const aside = READS_AT + this.place * READ_BYTES;
    this.place = (this.place + 1) % MOST;
    this.workspace.words.copyWithin(aside / 4, request / 4, (request + READ_BYTES) / 4);
    return aside;
  }

  answer(request: number): void {
    this.server.answer(request);
  }

  write(request: number, done: number, limit: number): number {
    return this.server.write(request, done, limit);
  }

  wait(attention: Attention, timeoutMs: number): boolean {
    return attention.wait(this.fd, timeoutMs);
  }

  resume(): boolean {
    return this.server.resend();
  }

  private word(offset: number): number {
    return this.workspace.words[offset / 4];
  }

  /** Why there was no request. */
  private notice(error: number): void {
    if (error === ENODEV)
      this.gone = true; // unmounted
    else if (error !== EAGAIN && error !== EINTR && error !== ENOENT) {
      throw new Error(`reading /dev/fuse: errno ${error}`);
    }
  }
}
