import { PAGE } from '../native/libc.js';
import { isPresent, Pagemap } from './pagemap.js';
import type { ProcessId } from './process.js';

/** Entries that are read for nothing rather than with a read of their own. */
const GAP_PAGES = 64;

/** Those of some pages that are mapped in a process now; null when it is gone. Some 30 µs, and 1 or 2 a place that is read. */
export function mappedPages(process: ProcessId, pages: Iterable<number>): Set<number> | null {
  const pagemap = Pagemap.open(process);
  if (pagemap === null) return null;
  try {
    const asked = new Set(pages);
    const sorted = Float64Array.from(asked).sort();
    const mapped = new Set<number>();
    for (let i = 0; i < sorted.length;) {
      const first = sorted[i];
      let last = first;
      for (i++; i < sorted.length && sorted[i] - last <= GAP_PAGES; i++) last = sorted[i];
      const alive = pagemap.scan(first * PAGE, (last + 1) * PAGE, (address, _low, high) => {
        if (isPresent(high) && asked.has(address / PAGE)) mapped.add(address / PAGE);
      });
      if (!alive) return null;
    }
    return mapped;
  } finally {
    pagemap.close();
  }
}
