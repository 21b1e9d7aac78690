import { constants } from 'node:os';
import { errno, SystemError } from '../../native/errno.js';
import { close, poll, read, write } from '../../native/files.js';
import { MAP_ANONYMOUS, MAP_PRIVATE, mmap, PROT_READ, PROT_WRITE, view } from '../../native/memory.js';
import { POLLOUT, replaceDescriptor, shutdown, socketPair } from '../../native/sockets.js';
import type { Attention } from '../requests/attention.js';
import { NbdControl } from './control.js';

const { EAGAIN, ECONNRESET, EINTR, EINVAL, ENODEV, ENOSPC } = constants.errno;
/** Of `receive`: the connection was lost, and there is another. */
export const LOST = -1;
/** The end of a process that has much memory takes its time, and a connection that we hold no copy of ends with it. */
const PATIENCE_MS = 60_000;
const PAUSE_MS = 1;

/** The connection to the kernel, whichever it is just now; made to be played in tests. */
export interface Link {
  /** The device was taken away. */
  readonly gone: boolean;
  /** Reads up to `room` bytes to a native address: how many, 0 when there are none now, or LOST. */
  receive(address: number, room: number): number;
  /** Sends all of it. What can not be sent any more is asked for again. */
  send(address: number, length: number): void;
  wait(attention: Attention, timeoutMs: number): boolean;
  /** Takes the connection's place, whose server died. */
  replace(): void;
}

/** A stream socket to the NBD driver. The driver ends it when a request was not answered for long; then it takes another. */
export class NbdLink implements Link {
  gone = false;
  /** Made before they are needed, when there may be no memory. */
  private readonly control = new NbdControl();
  private spare = socketPair();
  private readonly pollfd = mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  private readonly pause = new Int32Array(new SharedArrayBuffer(4));

  /** `fd`: our end of the connection, or a copy of a pager's, to end it. It stays the number of whatever takes its place. */
  constructor(
    private readonly fd: number,
    private readonly index: number,
    private readonly backend: string,
  ) {
    new Int32Array(view(this.pollfd, 8)).set([fd, POLLOUT]);
  }

  receive(address: number, room: number): number {
    const length = read(this.fd, address, room);
    if (length > 0) return length;
    const error = length === 0 ? ECONNRESET : errno();
    if (error === EAGAIN || error === EINTR) return 0;
    if (error !== ECONNRESET) throw new SystemError('read', error, `nbd${this.index}`);
    this.reconnect();
    return LOST;
  }

  send(address: number, length: number): void {
    for (let sent = 0; sent < length;) {
      const more = write(this.fd, address + sent, length - sent);
      if (more >= 0) sent += more;
      // Who takes it is a thread of the kernel, which waits for nothing of ours.
      else if (errno() === EAGAIN) poll(this.pollfd, 1, -1);
      else if (errno() !== EINTR) return; // the connection has ended, as is seen when it is read
    }
  }

  wait(attention: Attention, timeoutMs: number): boolean {
    return attention.wait(this.fd, timeoutMs);
  }

  replace(): void {
    shutdown(this.fd);
    this.reconnect();
  }

  private reconnect(): void {
    const [ours, theirs] = this.spare;
    const until = performance.now() + PATIENCE_MS;
    for (let error = -1; error !== 0;) {
      error = this.attempt(theirs);
      if (error === EINVAL || error === ENODEV) {
        this.gone = true;
        return;
      }
      if (error === 0) break;
      if (error !== ENOSPC || performance.now() > until)
        throw new SystemError('NBD_CMD_RECONFIGURE', error, `nbd${this.index}`);
      Atomics.wait(this.pause, 0, 0, PAUSE_MS);
    }
    replaceDescriptor(this.fd, ours);
    close(ours);
    close(theirs); // the driver has its own
    this.spare = socketPair();
  }

  /** errno, 0 when it went well. */
  private attempt(socket: number): number {
    try {
      this.control.reconnect(this.index, socket, this.backend);
      return 0;
    } catch (error) {
      if (error instanceof SystemError) return error.errno;
      throw error;
    }
  }
}
