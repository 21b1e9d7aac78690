import { constants } from 'node:os';
import { AgentZipError } from '../../errors.js';
import { SystemError } from '../../native/errno.js';
import { close, ioctl, O_CLOEXEC, O_RDWR, open } from '../../native/files.js';
import { addressOf } from '../../native/memory.js';
import { PAGE } from '../../native/libc.js';

const LOOP_CTL_GET_FREE = 0x4c82;
const LOOP_CONFIGURE = 0x4c0a;
const LO_FLAGS_AUTOCLEAR = 4;
const LO_FLAGS_DIRECT_IO = 16;
/** struct loop_config: u32 fd, u32 block size, struct loop_info64 (flags at 52), reserved. */
const CONFIG = { bytes: 304, fd: 0, blockSize: 4, flags: 8 + 52 };
/** Others look for a free device too. */
const ATTEMPTS = 16;

/** A loop device over an open file. It is gone when the last user (swap) and `close` have let it go. */
export interface LoopDevice {
  path: string;
  /** Lets go of our own hold; do so once swap holds the device. */
  close(): void;
}

/** Puts a loop device with 4 KiB sectors and direct I/O over `fd`. AZ_LOOP_MISSING. */
export function attachLoop(fd: number): LoopDevice {
  let control: number;
  try {
    control = open('/dev/loop-control', O_RDWR | O_CLOEXEC);
  } catch (error) {
    throw new AgentZipError('AZ_LOOP_MISSING', { reason: (error as Error).message });
  }
  try {
    for (let attempt = 1; ; attempt++) {
      const path = `/dev/loop${ioctl(control, LOOP_CTL_GET_FREE, 0, 'LOOP_CTL_GET_FREE')}`;
      const device = open(path, O_RDWR | O_CLOEXEC);
      try {
        configure(device, fd, path);
        return { path, close: () => close(device) };
      } catch (error) {
        close(device);
        const taken = error instanceof SystemError && error.errno === constants.errno.EBUSY;
        if (!taken || attempt === ATTEMPTS) throw error;
      }
    }
  } finally {
    close(control);
  }
}

function configure(device: number, fd: number, path: string): void {
  const config = Buffer.alloc(CONFIG.bytes);
  config.writeUInt32LE(fd, CONFIG.fd);
  config.writeUInt32LE(PAGE, CONFIG.blockSize);
  config.writeUInt32LE(LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, CONFIG.flags);
  ioctl(device, LOOP_CONFIGURE, addressOf(config), `LOOP_CONFIGURE ${path}`);
}
