import { SystemError } from '../native/errno.js';
import { PAGE } from '../native/libc.js';
import { MADV_WILLNEED, processRead, type Range } from '../native/process.js';
import { adviseVector, vectorsOf } from './pageout.js';

export type { Range };

/** Pages asked for, then touched, at a time: a tool that wants one of them may have to wait for all. At most IOV_MAX, 1024. */
const TOUCH_PAGES = 256;

export interface RestoreOptions {
  /** Asked before every vector of 1 MiB; true stops there. */
  cancelled: () => boolean;
  /** Which pages are mapped too; default: all. The others are only read into the swap cache. */
  maps?: (page: number) => boolean;
  /** Told of each vector when its pages are there. */
  restored?: (vector: readonly Range[]) => void;
}

export interface RestoreResult {
  /** Pages asked for until the end, a cancel or the end of the process. */
  pages: number;
  gone: boolean;
}

/** Runs of consecutive pages, for page numbers in ascending order. */
export function rangesOfPages(pages: Iterable<number>): Range[] {
  const ranges: Range[] = [];
  let last: Range | undefined;
  for (const page of pages) {
    const address = page * PAGE;
    if (last && last.address + last.length === address) last.length += PAGE;
    else ranges.push((last = { address, length: PAGE }));
  }
  return ranges;
}

/** Reads one byte a page, which maps it. Pages that can not be read any more are skipped. False: process gone. */
export async function touch(
  pid: number,
  vector: readonly Range[],
  maps: (page: number) => boolean = () => true,
): Promise<boolean> {
  const bytes: Range[] = [];
  for (const { address, length } of vector) {
    for (let at = address; at < address + length; at += PAGE) {
      if (maps(at / PAGE)) bytes.push({ address: at, length: 1 });
    }
  }
  const into = new Uint8Array(bytes.length);
  for (let done = 0; done < bytes.length;) {
    try {
      const read = await processRead(pid, bytes.slice(done), into);
      done += read;
      if (done < bytes.length) done++;
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (error.code === 'ESRCH') return false;
      if (error.code !== 'EFAULT') throw error;
      done++;
    }
  }
  return true;
}

/**
 * Puts pages back: MADV_WILLNEED queues the reads of a vector while the one before it is mapped by reading one byte a
 * page. Measured: 18 + 29 ms for 19 900 pages, against 154 ms by reading alone.
 */
export async function restore(
  target: { pid: number; pidfd: number },
  ranges: readonly Range[],
  options: RestoreOptions,
): Promise<RestoreResult> {
  const result: RestoreResult = { pages: 0, gone: false };
  const vectors = vectorsOf(ranges, TOUCH_PAGES * PAGE);
  const advise = async (i: number): Promise<boolean> =>
    i >= vectors.length || !(await adviseVector(target.pidfd, vectors[i], MADV_WILLNEED)).gone;

  let ready = advise(0);
  for (let i = 0; i < vectors.length; i++) {
    result.gone = !(await ready);
    if (result.gone || options.cancelled()) break;
    ready = advise(i + 1);
    result.gone = !(await touch(target.pid, vectors[i], options.maps));
    result.pages += vectors[i].reduce((sum, range) => sum + range.length / PAGE, 0);
    if (result.gone) break;
    options.restored?.(vectors[i]);
  }
  await ready;
  return result;
}

/** Reads pages into the swap cache without mapping them, in the order given. */
export async function readAhead(
  pidfd: number,
  ranges: readonly Range[],
  { cancelled, restored }: Omit<RestoreOptions, 'maps'>,
): Promise<void> {
  for (const vector of vectorsOf(ranges, TOUCH_PAGES * PAGE)) {
    if (cancelled() || (await adviseVector(pidfd, vector, MADV_WILLNEED)).gone) return;
    restored?.(vector);
  }
}

export function forEachPage(ranges: readonly Range[], visit: (page: number) => void): void {
  for (const { address, length } of ranges) {
    for (let page = address / PAGE; page < (address + length) / PAGE; page++) visit(page);
  }
}
