import { SystemError } from '../native/errno.js';
import { timeHelpers } from './helper-cpu.js';
import { MADV_PAGEOUT, processMadvise, type processMadviseHere, type Range } from '../native/process.js';

const IOV_MAX = 1024;

/** Cuts ranges into vectors of at most `bytes` and IOV_MAX entries each. */
export function vectorsOf(ranges: readonly Range[], bytes: number): Range[][] {
  const vectors: Range[][] = [];
  let current: Range[] = [];
  let room = bytes;
  for (const range of ranges) {
    for (let done = 0; done < range.length;) {
      const length = Math.min(room, range.length - done);
      current.push({ address: range.address + done, length });
      done += length;
      room -= length;
      if (room === 0 || current.length === IOV_MAX) {
        vectors.push(current);
        current = [];
        room = bytes;
      }
    }
  }
  if (current.length > 0) vectors.push(current);
  return vectors;
}

export interface AdviceOptions {
  /** Most bytes a call: the call holds the target's mmap_lock, so its own mmap and brk wait that long. */
  vectorBytes: number;
  /** Asked before every vector; true stops at once. */
  cancelled: () => boolean;
  /** Awaited before every vector, so that more urgent work goes first. */
  turn?: () => Promise<void>;
  /** How one vector is advised; by default on a worker thread. */
  advise?: typeof processMadvise | typeof processMadviseHere;
}

export interface AdviceResult {
  /** Bytes the kernel went through. What it did with them only the page table tells. */
  advisedBytes: number;
  /** Ranges the kernel refused (unmapped or changed meanwhile). */
  refused: number;
  /** The process has ended. */
  gone: boolean;
  /** CPU time of the threads that did it, see {@link timeHelpers}. */
  cpuMs: number;
}

/** Advises one vector; a range that is refused is skipped and the rest goes on. */
export async function adviseVector(
  pidfd: number,
  vector: readonly Range[],
  advice: number,
  advise: NonNullable<AdviceOptions['advise']> = processMadvise,
): Promise<AdviceResult> {
  const result: AdviceResult = { advisedBytes: 0, refused: 0, gone: false, cpuMs: 0 };
  for (let rest = vector; rest.length > 0;) {
    let advised = 0;
    try {
      advised = await timeHelpers(result, () => advise(pidfd, rest, advice));
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      if (error.code === 'ESRCH') return { ...result, gone: true };
      if (error.code === 'EINTR') continue;
      if (error.code !== 'EINVAL' && error.code !== 'ENOMEM') throw error;
    }
    result.advisedBytes += advised;
    // A short count hides its error (mm/madvise.c vector_madvise): the range at which it ends is the refused one.
    let i = 0;
    for (; i < rest.length && advised >= rest[i].length; i++) advised -= rest[i].length;
    if (i < rest.length) result.refused++;
    rest = rest.slice(i + 1);
  }
  return result;
}

/** Pages `ranges` of the process behind `pidfd` out, one vector after the other, on a worker thread. */
export async function pageOut(
  pidfd: number,
  ranges: readonly Range[],
  options: AdviceOptions,
): Promise<AdviceResult> {
  const total: AdviceResult = { advisedBytes: 0, refused: 0, gone: false, cpuMs: 0 };
  for (const vector of vectorsOf(ranges, options.vectorBytes)) {
    await options.turn?.();
    if (options.cancelled()) break;
    const done = await adviseVector(pidfd, vector, MADV_PAGEOUT, options.advise);
    total.advisedBytes += done.advisedBytes;
    total.refused += done.refused;
    total.cpuMs += done.cpuMs;
    total.gone = done.gone;
    if (total.gone) break;
  }
  return total;
}
