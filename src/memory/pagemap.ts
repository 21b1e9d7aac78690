import { closeSync, openSync, readSync } from 'node:fs';
import { PAGE } from '../native/libc.js';
import { scanAnonymous } from '../native/pagemap.js';
import type { Range } from '../native/process.js';
import { identify, type ProcessId } from './process.js';

export {
  frameOf,
  isAnonymous,
  isGuard,
  isOwned,
  isPresent,
  isSwapped,
  swapOffset,
  swapType,
} from '../native/pagemap.js';

/**
 * The highest types of swap entries are the kernel's own: a page on its way from one frame to another, a poisoned one.
 * Such an entry does not tell where its page is (include/linux/swap.h, MAX_SWAPFILES).
 */
export const FIRST_SPECIAL_TYPE = 16;

/** Called once a page with its address and the entry's low and high word. */
export type EntryVisitor = (address: number, low: number, high: number) => void;

const CHUNK_PAGES = 65_536;
/** End of the user's half of 48-bit addresses, the most a process has unless it asks for more. */
const TASK_END = 0x7fff_ffff_f000;
/** Entries that are read for nothing rather than with a read of their own. */
const GAP_BYTES = 32 * PAGE;
/** One buffer for all: reads are synchronous, so only one is in use at a time. */
let buffer: Uint32Array | undefined;

/** Page table of one process as the kernel shows it in `/proc/PID/pagemap`. */
export class Pagemap {
  private constructor(private readonly fd: number) {}

  /**
   * Opens the page table of exactly this process; null when it is gone. The descriptor stays with the address
   * space it was opened on: after an exec it reads as empty.
   */
  static open(process: ProcessId): Pagemap | null {
    let fd: number;
    try {
      fd = openSync(`/proc/${process.pid}/pagemap`, 'r');
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
      throw error;
    }
    // Checked after the open: a pid that was taken over in between is found out.
    if (identify(process.pid)?.startTime === process.startTime) return new Pagemap(fd);
    closeSync(fd);
    return null;
  }

  /** Visits every page of [start, end). False when the address space is gone. */
  scan(start: number, end: number, visit: EntryVisitor): boolean {
    buffer ??= new Uint32Array(CHUNK_PAGES * 2);
    for (let address = start; address < end;) {
      const pages = Math.min(CHUNK_PAGES, (end - address) / PAGE);
      const bytes = readSync(this.fd, buffer, 0, pages * 8, (address / PAGE) * 8);
      if (bytes < 8) return false;
      const words = bytes >>> 2;
      for (let i = 0; i + 1 < words; i += 2, address += PAGE) visit(address, buffer[i], buffer[i + 1]);
    }
    return true;
  }

  /**
   * Runs of anonymous pages, present or out, over the whole address space in order; what is between two that are near is
   * taken in. Null where the kernel can not tell (before 6.7), or the address space is gone.
   */
  anonymousRuns(): Range[] | null {
    const runs: Range[] = [];
    let last: Range | undefined;
    const told = scanAnonymous(this.fd, 0, TASK_END, (start, end) => {
      if (last !== undefined && start - last.address - last.length <= GAP_BYTES)
        last.length = end - last.address;
      else runs.push((last = { address: start, length: end - start }));
    });
    return told ? runs : null;
  }

  close(): void {
    closeSync(this.fd);
  }
}
