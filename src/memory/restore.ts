import { SystemError } from '../native/errno.js';
import { PAGE } from '../native/libc.js';
import { MADV_WILLNEED, processRead, type Range } from '../native/process.js';
import { timeHelpers, type CpuTime } from './helper-cpu.js';
import { adviseVector, vectorsOf } from './pageout.js';

/** Pages asked for, then touched, at a time: a tool that wants one of them may have to wait for all. At most IOV_MAX, 1024. */
const TOUCH_PAGES = 256;

export interface RestoreOptions {
  /** Asked before every vector of 1 MiB; true stops there. */
  cancelled: () => boolean;
}

export interface RestoreResult {
  /** Pages asked for until the end, a cancel or the end of the process. */
  pages: number;
  gone: boolean;
  /** CPU time of the threads that did it, see {@link timeHelpers}. */
  cpuMs: number;
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

/**
 * Reads one byte a page, which maps it; `time` grows by what that took. Pages that can not be read any more are skipped.
 * False: process gone.
 */
export async function touch(pid: number, vector: readonly Range[], time: CpuTime): Promise<boolean> {
  const bytes: Range[] = [];
  for (const { address, length } of vector) {
    for (let at = 0; at < length; at += PAGE) bytes.push({ address: address + at, length: 1 });
  }
  const into = new Uint8Array(bytes.length);
  for (let done = 0; done < bytes.length;) {
    try {
      const read = await timeHelpers(time, () => processRead(pid, bytes.slice(done), into));
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
  const result: RestoreResult = { pages: 0, gone: false, cpuMs: 0 };
  const vectors = vectorsOf(ranges, TOUCH_PAGES * PAGE);
  const advise = async (i: number): Promise<boolean> => {
    if (i >= vectors.length) return true;
    const { gone, cpuMs } = await adviseVector(target.pidfd, vectors[i], MADV_WILLNEED);
    result.cpuMs += cpuMs;
    return !gone;
  };

  let ready = advise(0);
  for (let i = 0; i < vectors.length; i++) {
    result.gone = !(await ready);
    if (result.gone || options.cancelled()) break;
    ready = advise(i + 1);
    result.gone = !(await touch(target.pid, vectors[i], result));
    result.pages += vectors[i].reduce((sum, range) => sum + range.length / PAGE, 0);
    if (result.gone) break;
  }
  await ready;
  return result;
}
