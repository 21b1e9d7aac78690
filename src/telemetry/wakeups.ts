import { writeSync } from 'node:fs';
import { Epoll } from '../native/epoll.js';
import { close, eventfd } from '../native/files.js';

/**
 * Waits for the wake-ups of a BPF ring on a thread of libuv's pool, so that the event loop hears of news at once and does
 * nothing at all while there is none.
 */
export class Wakeups {
  private readonly epoll = new Epoll();
  private readonly stop = eventfd();
  private closed = false;
  /** A process that ends waits for the threads of the pool. */
  private readonly atExit = (): void => this.close();

  constructor(
    ringFd: number,
    private readonly onWake: () => void,
  ) {
    // Edges alone: there are records in the ring most of the time, and only the rare ones wake.
    this.epoll.add(ringFd, { once: true });
    this.epoll.add(this.stop, { once: false });
    process.once('exit', this.atExit);
    void this.run();
  }

  private async run(): Promise<void> {
    // A wait that fails (out of memory) leaves the news to the next poll.
    while (
      !this.closed &&
      (await this.epoll.wait().then(
        () => true,
        () => false,
      ))
    ) {
      if (!this.closed) this.onWake();
    }
    this.closed = true;
    process.off('exit', this.atExit);
    this.epoll.close();
    close(this.stop);
  }

  /** No call comes afterwards. Harmless when repeated. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    process.off('exit', this.atExit);
    writeSync(this.stop, new BigUint64Array([1n]));
  }
}
