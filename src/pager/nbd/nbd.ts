import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../../errors.js';
import { close } from '../../native/files.js';
import { PAGE } from '../../native/libc.js';
import { isReadable, socketPair } from '../../native/sockets.js';
import type { ChannelPlan } from '../requests/channel.js';
import type { FrontEnd } from '../front-end.js';
import { backendOf, NbdControl, nbdDevice } from './control.js';
import { MAX_DISCARD, MAX_IO } from './protocol.js';

const APPEAR_MS = 2_000;
const POLL_MS = 5;

/** A network block device whose server is at the other end of a socket pair: there is no network. */
export class Nbd implements FrontEnd {
  private readonly control = new NbdControl();
  private connected = false;
  private removed = false;

  private constructor(
    private readonly options: { runtimeDir: string; deviceBytes: number },
    private index: number | undefined,
    private fd: number | undefined,
  ) {}

  /** AZ_NBD_MISSING. */
  static create(options: Nbd['options']): Nbd {
    return new Nbd(options, undefined, undefined);
  }

  /** The device of a pager that is gone: served, and swap already. */
  static adopt(options: Nbd['options'], index: number, fd: number): Nbd {
    const frontEnd = new Nbd(options, index, fd);
    frontEnd.connected = true;
    return frontEnd;
  }

  get attached(): boolean {
    return this.connected;
  }

  get device(): string {
    if (this.index === undefined) throw new Error('not attached');
    return nbdDevice(this.index);
  }

  /** Whoever looks at the device already waits for the data loop. */
  prepare(): ChannelPlan {
    const [fd, theirs] = socketPair();
    const backend = backendOf(this.options.runtimeDir);
    const bytes = Math.floor(this.options.deviceBytes / PAGE) * PAGE;
    try {
      const index = this.control.connect(theirs, bytes, backend);
      this.index = index;
      this.fd = fd;
      return { frontEnd: 'nbd', fd, index, backend };
    } catch (error) {
      close(fd);
      if (error instanceof AgentZipError) throw error;
      throw new AgentZipError('AZ_NBD_MISSING', { reason: (error as Error).message });
    } finally {
      close(theirs); // the driver has its own
    }
  }

  async attach(): Promise<void> {
    const { device } = this;
    for (let waited = 0; !existsSync(device); waited += POLL_MS) {
      if (waited >= APPEAR_MS) throw new AgentZipError('AZ_NBD_MISSING', { reason: `no ${device}` });
      await sleep(POLL_MS);
    }
    // These wait for requests under way, so not on this thread: it must be able to see the data loop fail.
    const queue = `/sys/block/${device.replace('/dev/', '')}/queue`;
    await writeFile(`${queue}/max_sectors_kb`, String(MAX_IO / 1024));
    await writeFile(`${queue}/discard_max_bytes`, String(MAX_DISCARD));
    this.connected = true;
  }

  settle(): void {}

  /** A connection that the driver has ended, for a request was not answered in time, and what came by one. */
  hasUnread(): boolean {
    return this.connected && this.fd !== undefined && isReadable(this.fd);
  }

  detach(): Promise<void> {
    if (this.index !== undefined && !this.removed) this.control.disconnect(this.index);
    this.removed = true;
    this.connected = false;
    return Promise.resolve();
  }
}
