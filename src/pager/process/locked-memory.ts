import { readFileSync } from 'node:fs';
import { madvise, mlockall, reserveHeap } from '../../native/memory.js';
import { LOCK_FLAGS } from './seccomp.js';

/** Faults every page of a range in, as a read does (Linux 5.14). */
const MADV_POPULATE_READ = 22;

/**
 * Of the C heap, which all threads share. A thread that lets it grow waits for page faults of others in it, which under memory
 * pressure wait for the device, and so for the data loop: this must never be the one that lets it grow.
 */
const HEAP_BYTES = 2 * 2 ** 20;

/** Locks all memory of this process, now and later; throws where that is not permitted. */
export function lockMemory(): void {
  try {
    mlockall(LOCK_FLAGS);
    reserveHeap(HEAP_BYTES);
  } catch (error) {
    const reason = (error as Error).message;
    throw new Error(
      `memory can not be locked (${reason}): the pager must not run where it can be swapped out`,
      { cause: error },
    );
  }
}

/**
 * Brings back what the kernel had swapped out before the memory was locked: locking alone leaves it where it is.
 * Throws when some of it stays out.
 */
export function bringIn(): void {
  let address = 0;
  let length = 0;
  for (const line of readFileSync('/proc/self/smaps', 'latin1').split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line);
    if (range !== null) {
      address = parseInt(range[1], 16);
      length = parseInt(range[2], 16) - address;
    } else if (/^Swap:\s+[1-9]/.test(line)) {
      madvise(address, length, MADV_POPULATE_READ);
    }
  }
  const out = /VmSwap:\s+([1-9]\d*) kB/.exec(readFileSync('/proc/self/status', 'latin1'));
  if (out !== null) throw new Error(`${out[1]} KiB of this process stay swapped out`);
}
