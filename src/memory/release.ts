import { PAGE } from '../native/libc.js';
import type { Range } from '../native/process.js';
import { pageOut, vectorsOf, type AdviceOptions } from './pageout.js';
import { touch, type Target } from './restore.js';

/** Pages mapped back at a time before they go again: what is present in between stays small, and so does what the end of a window waits for. */
const CHUNK_BYTES = 64 * PAGE;

/**
 * Gives the memory of pages that are out back to the host. On a device that writes asynchronously MADV_PAGEOUT leaves
 * a page in the swap cache once it is written: the page table says "swapped", the memory is still taken, and nothing
 * frees it before the host runs short (mm/vmscan.c, shrink_folio_list keeps folios under writeback; seen on 6.18:
 * 192 MiB paged out, SwapCached 192 MiB). MADV_PAGEOUT passes over swap entries, so each page is mapped again from
 * the cache and paged out once more: it is clean now, needs no write and is freed at once. Measured: 1.2 + 1.6 µs a
 * page.
 *
 * Give it only pages whose writes are complete; others would be read from the device for nothing. Returns how many of the pages, in
 * order, were seen to, and the CPU time of the threads that did it.
 */
export async function releaseCached(
  target: Target,
  ranges: readonly Range[],
  options: AdviceOptions,
): Promise<{ pages: number; cpuMs: number }> {
  const result = { pages: 0, cpuMs: 0 };
  for (const vector of vectorsOf(ranges, CHUNK_BYTES)) {
    await options.turn?.();
    if (options.cancelled()) break;
    if (!(await touch(target.pid, vector, result))) break;
    // Not cancelled in between: pages left mapped here would be owned without having been wanted.
    const { vectorBytes } = options;
    result.cpuMs += (await pageOut(target.pidfd, vector, { vectorBytes, cancelled: () => false })).cpuMs;
    result.pages += vector.reduce((sum, { length }) => sum + length / PAGE, 0);
  }
  return result;
}
