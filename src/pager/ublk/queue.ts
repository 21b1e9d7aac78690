import { constants } from 'node:os';
import { SystemError } from '../../native/errno.js';
import { O_CLOEXEC, O_RDWR, open, POLLIN, readAt, writeAt } from '../../native/files.js';
import { IoUring, OP_POLL_ADD, OP_URING_CMD, Sqe } from '../../native/io-uring.js';
import { PAGE } from '../../native/libc.js';
import { MAP_SHARED, mmap, PROT_READ, view } from '../../native/memory.js';
import type { Attention } from '../requests/attention.js';
import { NONE } from '../requests/channel.js';
import { COMMIT_AND_FETCH_REQ, dataOffset, DEPTH, FETCH_REQ, Request } from './protocol.js';

/** Words of struct ublksrv_io_cmd in a submission; its address stays 0, for data is copied by us. */
const Command = { QUEUE_TAG: Sqe.CMD, RESULT: Sqe.CMD + 1 } as const;
/** User data of the poll of the eventfd; tags are less. */
const BELL = DEPTH;
/** The kernel has no memory, or no room for completions, just now. */
const BUSY: readonly number[] = [constants.errno.EAGAIN, constants.errno.EBUSY, constants.errno.EINTR];

/** Requests of a ublk device, each under its tag; made to be played in tests. */
export interface RequestQueue {
  /** struct ublksrv_io_desc of each tag, as words. */
  readonly descriptors: Uint32Array;
  /** The device was stopped. */
  readonly gone: boolean;
  /** Tag of a request that has come, or NONE. */
  next(): number;
  /** Answers the request of a tag, and gives the tag back. `result`: bytes read or written, or minus an errno. */
  complete(tag: number, result: number): void;
  /** Copies what a write brings, from `offset` in its data, to an address. False: it went wrong. */
  fetch(tag: number, offset: number, address: number, length: number): boolean;
  /** Copies from an address to where a read wants it. */
  give(tag: number, address: number, length: number): boolean;
  wait(attention: Attention, timeoutMs: number): boolean;
}

/**
 * The one queue of a ublk device. Requests come as completions of commands that wait in the kernel, one a tag; the thread
 * that has sent the first of them serves the queue, and no other can.
 */
export class UblkQueue implements RequestQueue {
  descriptors = new Uint32Array(0);
  gone = false;
  private fd = -1;
  private readonly ring = new IoUring(2 * DEPTH, { wide: false });
  /** The eventfd is polled for. */
  private armed = false;
  private rang = false;

  /** Opens the device, which nobody else has open, and waits for its requests from now on. */
  open(id: number): void {
    const path = `/dev/ublkc${id}`;
    this.fd = open(path, O_RDWR | O_CLOEXEC);
    const bytes = Math.ceil((DEPTH * Request.WORDS * 4) / PAGE) * PAGE;
    this.descriptors = new Uint32Array(view(mmap(bytes, PROT_READ, MAP_SHARED, this.fd), bytes));
    for (let tag = 0; tag < DEPTH; tag++) this.command(FETCH_REQ, tag, 0);
    this.submit();
  }

  next(): number {
    const { ring } = this;
    const tag = ring.next();
    if (tag === -1) return NONE;
    if (tag === BELL) {
      this.armed = false;
      this.rang = true;
      return this.next();
    }
    if (ring.result === 0) return tag;
    if (ring.result !== -constants.errno.ENODEV) throw new SystemError('ublk', -ring.result, `tag ${tag}`);
    this.gone = true;
    return NONE;
  }

  complete(tag: number, result: number): void {
    this.command(COMMIT_AND_FETCH_REQ, tag, result);
    this.submit();
  }

  fetch(tag: number, offset: number, address: number, length: number): boolean {
    return readAt(this.fd, address, length, dataOffset(tag) + offset) === length;
  }

  give(tag: number, address: number, length: number): boolean {
    return writeAt(this.fd, address, length, dataOffset(tag)) === length;
  }

  wait(attention: Attention, timeoutMs: number): boolean {
    if (this.rang) {
      this.rang = false;
      return true;
    }
    if (!this.armed) this.arm(attention.eventFd);
    this.ring.wait(timeoutMs);
    return false; // who rang is seen when the completions are taken
  }

  private command(operation: number, tag: number, result: number): void {
    const { ring } = this;
    const at = ring.prepare();
    const { submissions } = ring;
    submissions[at + Sqe.OPCODE] = OP_URING_CMD;
    submissions[at + Sqe.FD] = this.fd;
    submissions[at + Sqe.COMMAND] = operation;
    submissions[at + Sqe.USER_DATA] = tag;
    submissions[at + Command.QUEUE_TAG] = tag << 16;
    submissions[at + Command.RESULT] = result;
  }

  private arm(eventFd: number): void {
    const { ring } = this;
    const at = ring.prepare();
    ring.submissions[at + Sqe.OPCODE] = OP_POLL_ADD;
    ring.submissions[at + Sqe.FD] = eventFd;
    ring.submissions[at + Sqe.POLL_EVENTS] = POLLIN;
    ring.submissions[at + Sqe.USER_DATA] = BELL;
    this.armed = true;
  }

  private submit(): void {
    for (;;) {
      const error = this.ring.submit();
      if (error === 0) return;
      if (!BUSY.includes(error)) throw new SystemError('io_uring_enter', error, 'ublk queue');
    }
  }
}
