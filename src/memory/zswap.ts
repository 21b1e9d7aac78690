import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { compareRelease } from '../native/kernel-version.js';
import { PAGE } from '../native/libc.js';
import {
  madvise,
  MAP_ANONYMOUS,
  MAP_PRIVATE,
  mmap,
  munmap,
  PROT_READ,
  PROT_WRITE,
  view,
} from '../native/memory.js';
import { MADV_PAGEOUT } from '../native/process.js';
import { memInfo } from './swap.js';

const PARAMETERS = '/sys/module/zswap/parameters';
/** More than a processor gathers before pages can be paged out (31). */
const NUDGE_PAGES = 64;
/** The worker that writes back is begun by then, and stops for no longer while it works. */
const STALL_MS = 100;
const POLL_MS = 5;

export interface ZswapStat {
  /** Memory that it takes, and the pages in it, of whatever swap. */
  poolBytes: number;
  pages: number;
  /** Pages that it wrote back since boot; null: this kernel does not say (before 6.8, without debugfs). */
  writtenBack: number | null;
}

const readNumber = (path: string): number | null => {
  try {
    return Number(readFileSync(path, 'latin1'));
  } catch {
    return null;
  }
};

function writtenBack(): number | null {
  const counted = /^zswpwb (\d+)$/m.exec(readFileSync('/proc/vmstat', 'latin1'))?.[1];
  return counted === undefined ? readNumber('/sys/kernel/debug/zswap/written_back_pages') : Number(counted);
}

export function zswapStat(): ZswapStat {
  const text = readFileSync('/proc/meminfo', 'utf8');
  const pages = memInfo('Zswapped', text) / PAGE;
  return { poolBytes: memInfo('Zswap', text), pages, writtenBack: writtenBack() };
}

/** Are pages that go out stored by zswap now? */
export const zswapIsOn = (): boolean =>
  existsSync(`${PARAMETERS}/enabled`) && readFileSync(`${PARAMETERS}/enabled`, 'latin1').trim() === 'Y';

const set = (name: string, value: number | string): void =>
  writeFileSync(`${PARAMETERS}/${name}`, String(value));

/**
 * Is a page taken out of zswap when it is read, and dirty then? So it is from 6.9 on; before that it stays in zswap, and is dropped
 * instead of written when it is paged out again.
 */
export const loadsTake = (kernel: string = release()): boolean => compareRelease(kernel, '6.9') >= 0;

/** What zswap holds stays in it during `step`, and what goes out meanwhile passes it by. */
export async function pastZswap<T>(step: () => Promise<T>): Promise<T> {
  set('enabled', 'N');
  try {
    return await step();
  } finally {
    set('enabled', 'Y');
  }
}

/**
 * Lets zswap write back all that it holds, the oldest first: its limit goes to nothing for a moment, and pages of ours are
 * paged out, for it looks at its limit only when it is to store one (mm/zswap.c, shrink_worker). Not for Linux 6.12 and later, where
 * the worker gives every page a second chance and gives up after 16. Returns how many pages it no longer holds.
 */
export async function drainZswap(limitPercent: number, cancelled: () => boolean): Promise<number> {
  const before = zswapStat().pages;
  set('max_pool_percent', 0);
  try {
    nudge();
    for (let held = before, idleMs = 0; idleMs < STALL_MS && held > 0 && !cancelled(); idleMs += POLL_MS) {
      await sleep(POLL_MS);
      const { pages } = zswapStat();
      if (pages < held) idleMs = 0;
      held = pages;
    }
  } finally {
    set('max_pool_percent', limitPercent);
  }
  return before - zswapStat().pages;
}

function nudge(): void {
  const bytes = NUDGE_PAGES * PAGE;
  const address = mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  try {
    // One word repeated: zswap looks at its limit first, refuses them, and the store needs no memory for them.
    new Uint32Array(view(address, bytes)).fill(1);
    madvise(address, bytes, MADV_PAGEOUT);
  } finally {
    munmap(address, bytes);
  }
}
