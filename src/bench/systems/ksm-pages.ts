import { closeSync, openSync, readSync } from 'node:fs';
import { isAnonymous, isOwned, Pagemap } from '../../memory/pagemap.js';
import { identify } from '../../memory/process.js';
import { readVmas } from '../../memory/vmas.js';

/** KPF_KSM of include/uapi/linux/kernel-page-flags.h, in the lower word. */
const KSM_FLAG = 1 << 21;
/** Entries read past unwanted ones: a read costs as much as some 60 entries more (measured). */
const GAP = 64;
const WINDOW = 16_384;

/**
 * Which page frames KSM has merged, after /proc/kpageflags. The page table of a process does not tell: a merged page
 * that only one process maps looks there like one that the process owns.
 */
export class KsmPages {
  private readonly flags = new Uint32Array(2 * WINDOW);

  /** Merged pages that one process alone maps, over `pids`: the kernel counts them as its own and as KSM's. */
  countSole(pids: readonly number[]): number {
    return this.merged(pids.flatMap((pid) => framesOf(pid, isOwned))).length;
  }

  /** Merged pages that any of `pids` maps, each once however often it is mapped. */
  countMapped(pids: readonly number[]): number {
    const frames = new Set<number>();
    for (const pid of pids) for (const frame of framesOf(pid, isAnonymous)) frames.add(frame);
    return this.merged([...frames]).length;
  }

  private merged(frames: number[]): number[] {
    const sorted = Float64Array.from(frames).sort();
    const found: number[] = [];
    const fd = openSync('/proc/kpageflags', 'r');
    try {
      for (let i = 0; i < sorted.length;) {
        const first = sorted[i];
        let end = i + 1;
        while (end < sorted.length && sorted[end] - sorted[end - 1] <= GAP && sorted[end] - first < WINDOW)
          end++;
        const entries = sorted[end - 1] - first + 1;
        const read = readSync(fd, this.flags, 0, entries * 8, first * 8) / 8;
        for (; i < end; i++) {
          const at = sorted[i] - first;
          if (at < read && (this.flags[2 * at] & KSM_FLAG) !== 0) found.push(sorted[i]);
        }
      }
    } finally {
      closeSync(fd);
    }
    return found;
  }
}

/** Numbers of the page frames behind a process's private pages whose entry `wanted` accepts; none when it is gone. */
function framesOf(pid: number, wanted: (high: number) => boolean): number[] {
  const process = identify(pid);
  const pagemap = process && Pagemap.open(process);
  if (!pagemap) return [];
  const frames: number[] = [];
  try {
    for (const { start, end, kind, path } of readVmas(pid, { flags: false })) {
      if (kind === 'shared' || path === '[vsyscall]') continue;
      pagemap.scan(start, end, (_, low, high) => {
        // Bits 0–54 are the frame of a present page; zero for readers without CAP_SYS_ADMIN.
        if (wanted(high)) frames.push((high & 0x7fffff) * 2 ** 32 + low);
      });
    }
  } finally {
    pagemap.close();
  }
  return frames;
}
