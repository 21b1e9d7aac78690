import { randomFillSync } from 'node:crypto';
import { openSync, closeSync, readSync } from 'node:fs';
import { AgentZipError } from '../errors.js';
import { PAGE } from '../native/libc.js';
import {
  madvise,
  MAP_ANONYMOUS,
  MAP_PRIVATE,
  mmap,
  munlock,
  munmap,
  PROT_READ,
  PROT_WRITE,
  view,
} from '../native/memory.js';
import { MADV_PAGEOUT } from '../native/process.js';

const PROBE_PAGES = 16;
const ATTEMPTS = 10;
const SWAPPED = 1 << 30; // bit 62, in the upper word

/**
 * Pages some memory of our own out and back in: the number pagemap gives to our device, and proof that the way
 * through kernel, device and store works before any sandbox depends on it. The device has the highest priority,
 * so the pages go there.
 */
export function probeSwapType(): number {
  const bytes = PROBE_PAGES * PAGE;
  const address = mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  const pagemap = openSync('/proc/self/pagemap', 'r');
  try {
    munlock(address, bytes); // all our memory is locked; this piece must be able to leave
    const memory = new Uint8Array(view(address, bytes));
    const wrote = randomFillSync(new Uint8Array(bytes));
    const entries = new Uint32Array(PROBE_PAGES * 2);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      memory.set(wrote);
      madvise(address, bytes, MADV_PAGEOUT);
      readSync(pagemap, new Uint8Array(entries.buffer), 0, entries.byteLength, (address / PAGE) * 8);
      const swapped = entries.findIndex((word, i) => i % 2 === 1 && (word & SWAPPED) !== 0);
      if (swapped < 0) continue;
      const type = entries[swapped - 1] & 31;
      if (Buffer.compare(memory, wrote) !== 0) {
        throw new AgentZipError('AZ_PAGER_START', {
          reason: 'a page came back changed',
          log: 'the kernel log',
        });
      }
      return type;
    }
    throw new AgentZipError('AZ_PAGER_START', {
      reason: 'the kernel does not page out to the new device',
      log: '/proc/swaps and memory.swap.max of the cgroup',
    });
  } finally {
    closeSync(pagemap);
    munmap(address, bytes);
  }
}
