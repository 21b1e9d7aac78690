import { constants } from 'node:os';
import { AgentZipError } from '../../errors.js';
import { SystemError } from '../../native/errno.js';
import { close, O_CLOEXEC, O_RDWR, open } from '../../native/files.js';
import { IoUring, OP_URING_CMD, Sqe } from '../../native/io-uring.js';
import { MAP_ANONYMOUS, MAP_PRIVATE, mmap, PROT_READ, PROT_WRITE, view } from '../../native/memory.js';
import { PAGE } from '../../native/libc.js';
import { Control, NO_QUEUE } from './protocol.js';

/** On some kernels a command is never run (see ublk-kernels.ts). On a busy machine one takes milliseconds. */
const PATIENCE_MS = 10_000;
/** Words of struct ublksrv_ctrl_cmd in a submission. */
const Command = {
  DEVICE: Sqe.CMD,
  QUEUE_LENGTH: Sqe.CMD + 1,
  ADDRESS: Sqe.CMD + 2,
  DATA: Sqe.CMD + 4,
} as const;

/** /dev/ublk-control, for one thread: commands that are waited for, but not for ever. */
export class UblkControl {
  /** What a command reads or writes besides its number; a page. */
  readonly buffer: DataView;
  private readonly fd: number;
  private readonly ring: IoUring;
  private readonly address = mmap(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

  /** AZ_UBLK_MISSING. */
  constructor() {
    this.buffer = new DataView(view(this.address, PAGE));
    try {
      this.fd = open('/dev/ublk-control', O_RDWR | O_CLOEXEC);
    } catch (error) {
      throw new AgentZipError('AZ_UBLK_MISSING', { reason: (error as Error).message });
    }
    try {
      this.ring = new IoUring(4, { wide: true });
    } catch (error) {
      close(this.fd);
      throw new AgentZipError('AZ_UBLK_MISSING', { reason: (error as Error).message });
    }
  }

  /**
   * Runs a command with `length` bytes of the buffer. Blocks this thread. Throws a SystemError with what the driver says,
   * or AZ_UBLK_STUCK when it says nothing.
   */
  run(command: keyof typeof Control, device: number, { length = 0, data = 0 } = {}): void {
    const error = this.attempt(command, device, { length, data });
    if (error !== 0) throw new SystemError(command, error, `ublk device ${device}`);
  }

  /** Likewise; returns the errno, 0 when it went well. */
  attempt(command: keyof typeof Control, device: number, { length = 0, data = 0 } = {}): number {
    const { ring } = this;
    const at = ring.prepare();
    const { submissions } = ring;
    submissions[at + Sqe.OPCODE] = OP_URING_CMD;
    submissions[at + Sqe.FD] = this.fd;
    submissions[at + Sqe.COMMAND] = Control[command];
    submissions[at + Command.DEVICE] = device;
    submissions[at + Command.QUEUE_LENGTH] = NO_QUEUE | (length << 16);
    if (length > 0) {
      submissions[at + Command.ADDRESS] = this.address % 2 ** 32;
      submissions[at + Command.ADDRESS + 1] = Math.floor(this.address / 2 ** 32);
    }
    submissions[at + Command.DATA] = data;
    const until = performance.now() + PATIENCE_MS;
    for (let left = PATIENCE_MS; left > 0; left = until - performance.now()) {
      ring.wait(left);
      if (ring.next() >= 0) return Math.abs(ring.result);
    }
    throw new AgentZipError('AZ_UBLK_STUCK', { command, seconds: PATIENCE_MS / 1000 });
  }

  /** Empties the buffer for the next command. */
  clear(): DataView {
    new Uint8Array(this.buffer.buffer).fill(0);
    return this.buffer;
  }

  close(): void {
    this.ring.close();
    close(this.fd);
  }
}

/** The driver is not ready for the next server yet. */
export const isBusy = (error: number): boolean => error === constants.errno.EBUSY;
