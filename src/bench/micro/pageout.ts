import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pageOut } from '../../memory/pageout.js';
import { releaseCached } from '../../memory/release.js';
import { inflight, memInfo } from '../../memory/swap.js';
import { close } from '../../native/files.js';
import { PAGE } from '../../native/libc.js';
import { pidfdOpen } from '../../native/process.js';
import { failed } from '../lines.js';
import type { Subject } from './subject.js';

/** As AgentZip's default policy does it (pageout.vectorKiB, pageout.retries). */
const VECTOR_BYTES = 256 * 1024;
const PASSES = 3;
/** Looking takes 0.3 ms of one core for 128 MiB. */
const POLL_MS = 5;
/** A write that the kernel has decided on is submitted within this time. */
const SETTLE_MS = 20;
const LIMIT_MS = 120_000;
/** A page-out that has come so far that it counts, and changes nothing for so long, is over. */
const STILL_MS = 3000;
/** Counters of a memory cgroup may lag by so much (MEMCG_CHARGE_BATCH pages a processor). */
const CACHE_SLACK_BYTES = 256 * PAGE;
/** A share of pages that the kernel may keep: more is not a page-out. */
const LEAST_OUT = 0.9;

/** How long a page-out took, in seconds. */
export interface PageOut {
  /** Until the page table showed all as out, though their memory may still have been taken; and how many. */
  unreleased: { seconds: number; pages: number };
  /** Until that memory was free too. `pages`: out, and not in the swap cache. */
  released: { seconds: number; pages: number };
}

/** Pages the subject out from here with process_madvise, and then releases what stays in the swap cache of the swap area `swap`. */
export async function pageOutDirectly(subject: Subject, swap: string): Promise<PageOut> {
  const options = { vectorBytes: VECTOR_BYTES, cancelled: () => false };
  const pidfd = pidfdOpen(subject.pid);
  try {
    const from = performance.now();
    let swapped = 0;
    for (let pass = 0; pass < PASSES && swapped < subject.pages; pass++) {
      const before = swapped;
      await pageOut(pidfd, [subject.range], options);
      swapped = subject.swapped();
      if (swapped === before) break;
    }
    const unreleased = { seconds: since(from), pages: swapped };
    let { cached } = await subject.places();
    let seconds = unreleased.seconds;
    if (cached > 0) {
      await written(swap);
      await releaseCached({ pid: subject.pid, pidfd }, await subject.cached(), options);
      seconds = since(from);
      ({ cached } = await subject.places());
    }
    return checked(subject, { unreleased, released: { seconds, pages: subject.swapped() - cached } });
  } finally {
    close(pidfd);
  }
}

/** Follows a page-out that somebody else has begun at `from` (performance.now). */
export async function followPageOut(subject: Subject, from: number, signal: AbortSignal): Promise<PageOut> {
  const cacheAtStart = swapCacheBytes(subject.cgroup);
  let best = { seconds: since(from), pages: subject.swapped() };
  let leastCache = Infinity;
  let changedAt = performance.now();
  for (;;) {
    const pages = subject.swapped();
    const cache = swapCacheBytes(subject.cgroup) - cacheAtStart;
    const seconds = since(from);
    if (pages > best.pages || cache < leastCache) changedAt = performance.now();
    if (pages > best.pages) {
      best = { seconds, pages };
      leastCache = Infinity; // the cache grows with what goes out
    }
    leastCache = Math.min(leastCache, cache);
    const still = performance.now() - changedAt > STILL_MS;
    // While it is released, some pages are mapped again for a moment.
    const freed = pages >= best.pages && cache < CACHE_SLACK_BYTES;
    if (pages >= LEAST_OUT * subject.pages && (freed || still)) {
      const { out } = await subject.places();
      return checked(subject, { unreleased: best, released: { seconds, pages: out } });
    }
    if (seconds * 1000 > LIMIT_MS) throw failed(`paging ${subject.id} out took longer than ${LIMIT_MS} ms`);
    await sleep(POLL_MS, undefined, { signal });
  }
}

function checked(subject: Subject, result: PageOut): PageOut {
  if (result.released.pages >= LEAST_OUT * subject.pages) return result;
  throw failed(`only ${result.released.pages} of ${subject.pages} pages of ${subject.id} went out`);
}

/** Waits until the device has no write in flight, twice in a row: the kernel submits what it has decided on meanwhile. */
async function written(swap: string): Promise<void> {
  for (let idle = 0; idle < 2;) {
    await sleep(SETTLE_MS);
    idle = inflight(swap).writes === 0 ? idle + 1 : 0;
  }
}

/** Memory of a cgroup's swap cache; the whole host's where the kernel does not tell them apart (before 5.13). */
function swapCacheBytes(cgroup: string): number {
  const match = /^swapcached (\d+)$/m.exec(readFileSync(`${cgroup}/memory.stat`, 'latin1'));
  return match ? Number(match[1]) : memInfo('SwapCached');
}

const since = (from: number): number => (performance.now() - from) / 1000;
