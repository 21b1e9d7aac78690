import { frameOf, isAnonymous, isOwned, Pagemap } from '../../memory/pagemap.js';
import { isMerged, KPF, readPageFlags } from '../../memory/page-flags.js';
import { identify } from '../../memory/process.js';
import { readVmas } from '../../memory/vmas.js';

/*
 * Which page frames KSM has merged, after /proc/kpageflags. The page table of a process does not tell: a merged page
 * that only one process maps looks there like one that the process owns.
 */

/** Merged pages that one process alone maps, over `pids`: the kernel counts them as its own and as KSM's. */
export const mergedSole = (pids: readonly number[]): number =>
  merged(pids.flatMap((pid) => framesOf(pid, isOwned)));

/** Merged pages that any of `pids` maps, each once however often it is mapped. */
export function mergedMapped(pids: readonly number[]): number {
  const frames = new Set<number>();
  for (const pid of pids) for (const frame of framesOf(pid, isAnonymous)) frames.add(frame);
  return merged([...frames]);
}

function merged(frames: readonly number[]): number {
  let count = 0;
  readPageFlags(frames, (_, low, high) => {
    if (isMerged(low, high)) count++;
  });
  return count;
}

/** Has this kernel KSM's mark on every anonymous page, so that merged ones can not be counted? Only to be asked while nothing is merged. */
export function marksAll(): boolean {
  let marked = false;
  readPageFlags(framesOf(process.pid, isOwned), (_, low) => (marked ||= (low & KPF.KSM) !== 0));
  return marked;
}

/** Numbers of the page frames behind a process's private pages whose entry `wanted` accepts; none when it is gone. */
function framesOf(pid: number, wanted: (high: number) => boolean): number[] {
  const found = identify(pid);
  const pagemap = found && Pagemap.open(found);
  if (!pagemap) return [];
  const frames: number[] = [];
  try {
    for (const { start, end, kind, path } of readVmas(pid, { flags: false })) {
      if (kind === 'shared' || path === '[vsyscall]') continue;
      pagemap.scan(start, end, (_, low, high) => {
        if (wanted(high)) frames.push(frameOf(low, high));
      });
    }
  } finally {
    pagemap.close();
  }
  return frames;
}
