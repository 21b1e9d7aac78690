import { PAGE } from '../native/libc.js';
import type { Range } from '../native/process.js';
import { FIRST_SPECIAL_TYPE, isGuard, isSwapped, Pagemap, swapType } from './pagemap.js';
import type { ProcessId } from './process.js';
import { readVmas } from './vmas.js';

const EVERYWHERE: Range = { address: 0, length: Number.MAX_SAFE_INTEGER };

/**
 * Page numbers of a process, ascending, that are out on whatever swap device and that a read brings back. A page that is in the
 * swap cache alone counts: for its process, and for a snapshot of it, it is not there. Null when the process is gone.
 */
export function pagesOut(process: ProcessId): number[] | null {
  const pagemap = Pagemap.open(process);
  if (pagemap === null) return null;
  const pages: number[] = [];
  try {
    const vmas = readVmas(process.pid, { flags: false }).filter(
      ({ kind, permissions }) => kind !== 'shared' && kind !== 'special' && permissions[0] === 'r',
    );
    const runs = pagemap.anonymousRuns() ?? [EVERYWHERE];
    let at = 0;
    for (const vma of vmas) {
      while (at < runs.length && runs[at].address + runs[at].length <= vma.start) at++;
      for (let i = at; i < runs.length && runs[i].address < vma.end; i++) {
        const start = Math.max(vma.start, runs[i].address);
        const end = Math.min(vma.end, runs[i].address + runs[i].length);
        const there = pagemap.scan(start, end, (address, low, high) => {
          if (isSwapped(high) && swapType(low) < FIRST_SPECIAL_TYPE && !isGuard(high))
            pages.push(address / PAGE);
        });
        if (!there) return null;
      }
    }
    return pages;
  } finally {
    pagemap.close();
  }
}
