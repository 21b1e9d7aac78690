import { randomFillSync } from 'node:crypto';
import { openSync, closeSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
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
} from '../../native/memory.js';
import { isSwapped, swapOffset, swapType } from '../../native/pagemap.js';
import { MADV_PAGEOUT } from '../../native/process.js';

/** Of new pages a processor gathers up to 31 before they can be paged out. */
const PROBE_PAGES = 64;
const ATTEMPTS = 10;
const ARRIVAL_MS = 200;
const POLL_MS = 5;
const PAUSE_MS = 20;

/** Is there a page of ours in each of these slots of our device? They take a moment to be written. */
async function arrive(slots: readonly number[], isStored: (slot: number) => boolean): Promise<boolean> {
  for (let waited = 0; waited < ARRIVAL_MS; waited += POLL_MS) {
    if (slots.every(isStored)) return true;
    await sleep(POLL_MS);
  }
  return false;
}

/** Swap type and slots of the pages that are out, by the first one's device. */
function outOf(entries: Uint32Array): { type: number; slots: number[] } | null {
  let type = -1;
  const slots: number[] = [];
  for (let i = 0; i < entries.length; i += 2) {
    const [low, high] = [entries[i], entries[i + 1]];
    if (!isSwapped(high)) continue;
    if (type < 0) type = swapType(low);
    if (swapType(low) === type) slots.push(swapOffset(low, high));
  }
  return type < 0 ? null : { type, slots };
}

/**
 * Pages some memory of our own out and back in: the number pagemap gives to our device, and proof that the way
 * through kernel, device and store works before any sandbox depends on it. The device has the highest priority,
 * so the pages go there; where another has the same, only what `isStored` in
 * their slots here tells that it was ours. `permitted` runs a step in which this process may be paged out.
 */
export async function probeSwapType(
  isStored: (slot: number) => boolean,
  permitted: <T>(step: () => T) => T,
): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const type = await probe(isStored, permitted);
    if (type !== null) return type;
    await sleep(PAUSE_MS);
  }
  throw new AgentZipError('AZ_PAGER_START', {
    reason: 'the kernel does not page out to the new device',
    log: '/proc/swaps and memory.swap.max of the cgroup',
  });
}

/** Each time with new pages: such as another processor has yet to put on its list are not found by the kernel. */
async function probe(
  isStored: (slot: number) => boolean,
  permitted: <T>(step: () => T) => T,
): Promise<number | null> {
  const bytes = PROBE_PAGES * PAGE;
  const address = mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  const pagemap = openSync('/proc/self/pagemap', 'r');
  try {
    munlock(address, bytes); // all our memory is locked; this piece must be able to leave
    const memory = new Uint8Array(view(address, bytes));
    const wrote = randomFillSync(new Uint8Array(bytes));
    const entries = new Uint32Array(PROBE_PAGES * 2);
    memory.set(wrote);
    permitted(() => madvise(address, bytes, MADV_PAGEOUT));
    readSync(pagemap, new Uint8Array(entries.buffer), 0, entries.byteLength, (address / PAGE) * 8);
    const out = outOf(entries);
    if (out === null) return null;
    const ours = await arrive(out.slots, isStored);
    if (Buffer.compare(memory, wrote) === 0) return ours ? out.type : null;
    throw new AgentZipError('AZ_PAGER_START', { reason: 'a page came back changed', log: 'the kernel log' });
  } finally {
    closeSync(pagemap);
    munmap(address, bytes);
  }
}
