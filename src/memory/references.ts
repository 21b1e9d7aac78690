import {
  type EntryVisitor,
  FIRST_SPECIAL_TYPE,
  frameOf,
  isAnonymous,
  isGuard,
  isOwned,
  isSwapped,
  Pagemap,
  swapOffset,
  swapType,
} from './pagemap.js';
import { isExclusive, isMerged, KPF, readPageFlags } from './page-flags.js';
import type { Range } from '../native/process.js';
import { PAGE } from '../native/libc.js';
import { byteTable, type PageTable } from './page-table.js';
import type { ProcessId } from './process.js';
import { readVmas } from './vmas.js';

/** What a process can still reach of a swap device, by every mapping it has, whether or not it may be paged out. */
export interface References {
  /** Slots that its page table names. */
  slots: number[];
  /** Page frames of its anonymous pages that are present. One in the swap cache has a slot too, which no entry names. */
  frames: number[];
}

/** Null when the process is gone, or has a page of which it can not be told now where it is. */
export function referencesOf(process: ProcessId, type: number): References | null {
  const pagemap = Pagemap.open(process);
  if (pagemap === null) return null;
  const found: References = { slots: [], frames: [] };
  let told = true;
  const visit: EntryVisitor = (_, low, high) => {
    if (isSwapped(high)) {
      if (swapType(low) === type) found.slots.push(swapOffset(low, high));
      else if (swapType(low) >= FIRST_SPECIAL_TYPE && !isGuard(high)) told = false;
    } else if (isAnonymous(high)) found.frames.push(frameOf(low, high));
  };
  try {
    for (const { address, length } of pagemap.anonymousRuns() ?? privateMappings(process.pid)) {
      if (!pagemap.scan(address, address + length, visit)) return null;
    }
    return told ? found : null;
  } finally {
    pagemap.close();
  }
}

/** Pages of shared memory are the file's, not the process's. */
const privateMappings = (pid: number): Range[] =>
  readVmas(pid, { flags: false })
    .filter(({ kind, path }) => kind !== 'shared' && path !== '[vsyscall]')
    .map(({ start, end }) => ({ address: start, length: end - start }));

/** Is any of these page frames in the swap cache? */
export function anyInSwapCache(frames: readonly number[]): boolean {
  let found = false;
  readPageFlags(frames, (_, low) => (found ||= (low & KPF.SWAP_CACHE) !== 0));
  return found;
}

/**
 * Can no other process have this page, which only one maps? Another may hold a swap entry of it, unless the page has no
 * slot yet, or the kernel marks it as exclusive.
 */
export const isSole = (low: number, high: number): boolean =>
  !isMerged(low, high) && ((low & KPF.SWAP_CACHE) === 0 || isExclusive(low, high));

/** Which pages of `ranges` are the process's alone, so that a slot they are written to now can be nobody else's. */
export function solePages(process: ProcessId, ranges: readonly Range[]): PageTable<Uint8Array> {
  const sole = byteTable();
  const pagemap = Pagemap.open(process);
  if (pagemap === null) return sole;
  const pages: number[] = [];
  const frames: number[] = [];
  try {
    for (const { address, length } of ranges) {
      pagemap.scan(address, address + length, (at, low, high) => {
        if (!isOwned(high)) return;
        pages.push(at / PAGE);
        frames.push(frameOf(low, high));
      });
    }
  } finally {
    pagemap.close();
  }
  readPageFlags(frames, (index, low, high) => {
    if (isSole(low, high)) sole.set(pages[index], 1);
  });
  return sole;
}
