import { poll, POLLIN, read, write } from '../../native/files.js';
import { mmap, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE, view } from '../../native/memory.js';

/** POLLIN among the returned events, which are the upper half of the word. */
const READABLE = POLLIN << 16;
/** Native scratch: an eventfd's 8-byte value, room to read it into, and two struct pollfd. */
const AT = { one: 0, value: 8, pollfds: 16 };

/**
 * Wakes the data loop. Senders set a flag, and ring an eventfd only when it was not set: a busy loop sees the flag
 * without a system call, an idle one leaves its poll. Each thread has one of these over the same flag.
 */
export class Attention {
  private readonly flag: Int32Array;
  private readonly scratch = mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  private readonly words = new Int32Array(view(this.scratch, 32));

  constructor(
    shared: SharedArrayBuffer,
    /** Readable when somebody has rung. */
    readonly eventFd: number,
  ) {
    this.flag = new Int32Array(shared);
    this.words[AT.one / 4] = 1;
  }

  ring(): void {
    if (Atomics.exchange(this.flag, 0, 1) === 0) write(this.eventFd, this.scratch + AT.one, 8);
  }

  get wanted(): boolean {
    return Atomics.load(this.flag, 0) === 1;
  }

  /** Call it before looking for work: what comes later rings again. */
  clear(): void {
    read(this.eventFd, this.scratch + AT.value, 8);
    Atomics.store(this.flag, 0, 0);
  }

  /** Blocks until `fd` is readable, somebody rings, or `timeoutMs` have passed; true when somebody rang. */
  wait(fd: number, timeoutMs: number): boolean {
    const at = AT.pollfds / 4;
    this.words[at] = fd;
    this.words[at + 1] = POLLIN;
    this.words[at + 2] = this.eventFd;
    this.words[at + 3] = POLLIN;
    poll(this.scratch + AT.pollfds, 2, timeoutMs);
    return (this.words[at + 3] & READABLE) !== 0;
  }
}
