import koffi from 'koffi';
import { SystemError } from './errno.js';
import { ioctl } from './files.js';

// An entry is 64 bits, read as two words so that nothing needs a BigInt (Documentation/admin-guide/mm/pagemap.rst).
const HIGH_PRESENT = 1 << 31;
const HIGH_SWAPPED = 1 << 30;
const HIGH_FILE = 1 << 29;
const HIGH_EXCLUSIVE = 1 << 24;
const HIGH_GUARD = 1 << 26;
const HIGH_OFFSET_MASK = 0x7fffff;
const OWNED_MASK = HIGH_PRESENT | HIGH_FILE | HIGH_EXCLUSIVE;
const OWNED = HIGH_PRESENT | HIGH_EXCLUSIVE;
const ANONYMOUS_MASK = HIGH_PRESENT | HIGH_FILE;

/** Present, anonymous, and mapped by this process alone. */
export const isOwned = (high: number): boolean => (high & OWNED_MASK) === OWNED;
/** Present and anonymous, maybe shared after a fork. */
export const isAnonymous = (high: number): boolean => (high & ANONYMOUS_MASK) === HIGH_PRESENT;
export const isPresent = (high: number): boolean => (high & HIGH_PRESENT) !== 0;
/** Out, or in the swap cache only: in either case the next touch faults. */
export const isSwapped = (high: number): boolean => (high & HIGH_SWAPPED) !== 0;
/** Part of a guard region (MADV_GUARD_INSTALL, 6.15): no page at all, although it reads as swapped. */
export const isGuard = (high: number): boolean => (high & HIGH_GUARD) !== 0;
export const swapType = (low: number): number => low & 31;
/** Page of the swap device (bits 5–54). Shown only to readers with CAP_SYS_ADMIN; zero otherwise. */
export const swapOffset = (low: number, high: number): number =>
  (low >>> 5) + (high & HIGH_OFFSET_MASK) * 2 ** 27;

/** Number of the page frame behind a present page (bits 0–54); shown only to readers with CAP_SYS_ADMIN, zero otherwise. */
export const frameOf = (low: number, high: number): number => low + (high & HIGH_OFFSET_MASK) * 2 ** 32;

// PAGEMAP_SCAN of include/uapi/linux/fs.h (6.7): struct pm_scan_arg has 12 u64, struct page_region 3.
const PAGEMAP_SCAN = 0xc0606610;
const ARG_BYTES = 96;
const REGION_WORDS = 3;
const REGIONS = 4096;
const FILE = 1n << 2n;
const PRESENT = 1n << 3n;
const SWAPPED = 1n << 4n;
const ZERO_PAGE = 1n << 5n;
const ARG = { size: 0, start: 2, end: 3, walkEnd: 4, vec: 5, vecLength: 6, inverted: 8, mask: 9, anyOf: 10 };

const argument = new BigUint64Array(ARG_BYTES / 8);
const regions = new BigUint64Array(REGIONS * REGION_WORDS);
let supported = true;

/**
 * Where the anonymous pages of a process are: calls `visit` with the bounds, in bytes, of each run of pages that are present
 * or swapped and no file's, in address order. Some 40 ns a page, and nothing for what is empty. `fd`: its `/proc/PID/pagemap`.
 *
 * @returns false when the kernel is older than 6.7 or the address space is gone
 */
export function scanAnonymous(
  fd: number,
  start: number,
  end: number,
  visit: (start: number, end: number) => void,
): boolean {
  if (!supported) return false;
  argument[ARG.size] = BigInt(ARG_BYTES);
  argument[ARG.end] = BigInt(end);
  argument[ARG.vec] = BigInt(koffi.address(regions));
  argument[ARG.vecLength] = BigInt(REGIONS);
  argument[ARG.inverted] = argument[ARG.mask] = FILE | ZERO_PAGE;
  argument[ARG.anyOf] = PRESENT | SWAPPED;
  for (let from = start; from < end; from = Number(argument[ARG.walkEnd])) {
    argument[ARG.start] = BigInt(from);
    let count: number;
    try {
      count = ioctl(fd, PAGEMAP_SCAN, Number(koffi.address(argument)), 'PAGEMAP_SCAN');
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (error.code === 'ENOTTY') supported = false;
      else if (error.code !== 'ESRCH') throw error;
      return false;
    }
    for (let i = 0; i < count; i++)
      visit(Number(regions[REGION_WORDS * i]), Number(regions[REGION_WORDS * i + 1]));
  }
  return true;
}
