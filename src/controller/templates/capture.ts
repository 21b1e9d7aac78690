import { SystemError } from '../../native/errno.js';
import { PAGE } from '../../native/libc.js';
import { processRead, type Range } from '../../native/process.js';
import { isAnonymous, isSwapped, Pagemap } from '../../memory/pagemap.js';
import type { ProcessId } from '../../memory/process.js';
import { rangesOfPages } from '../../memory/restore.js';
import { readVmas, type Vma } from '../../memory/vmas.js';
import { templateRegions, type TemplateRegion } from '../claims/address.js';

/** Bytes a process_vm_readv: large enough to be cheap, small beside what is captured. */
const READ_BYTES = 1 << 20;

export interface Capture {
  regions: TemplateRegion[];
  /** Pages that there were when it was looked at. */
  count: number;
  /** Each page's bytes are valid until the next one is asked for. Pages that went away meanwhile are missing. */
  pages: AsyncGenerator<{ templatePage: number; bytes: Uint8Array }>;
}

/** Page numbers of a mapping's anonymous pages, in memory or swapped out. */
function anonymousPages(pagemap: Pagemap, vma: Vma): number[] {
  const pages: number[] = [];
  if (vma.leftOut !== null) return pages;
  pagemap.scan(vma.start, vma.end, (address, _low, high) => {
    if (isAnonymous(high) || isSwapped(high)) pages.push(address / PAGE);
  });
  return pages;
}

/** Describes the memory of a warmed process, to be read page by page. Null when it is gone. */
export function capture(process: ProcessId): Capture | null {
  const pagemap = Pagemap.open(process);
  if (pagemap === null) return null;
  try {
    const vmas = readVmas(process.pid, { flags: true });
    const pages = new Map(vmas.map((vma) => [vma, anonymousPages(pagemap, vma)]));
    const regions = templateRegions(vmas, (vma) => pages.get(vma) ?? []);
    const used = [...pages.values()].flat();
    return { regions, count: used.length, pages: readPages(process.pid, regions, used) };
  } finally {
    pagemap.close();
  }
}

/** Cuts ranges so that each has at most READ_BYTES. */
function* reads(ranges: readonly Range[]): Generator<Range> {
  for (const { address, length } of ranges) {
    for (let at = 0; at < length; at += READ_BYTES) {
      yield { address: address + at, length: Math.min(READ_BYTES, length - at) };
    }
  }
}

async function* readPages(
  pid: number,
  regions: readonly TemplateRegion[],
  used: readonly number[],
): AsyncGenerator<{ templatePage: number; bytes: Uint8Array }> {
  const buffer = new Uint8Array(READ_BYTES);
  let region = 0;
  let base = 0;
  const templatePage = (address: number): number => {
    while (address >= regions[region].start + regions[region].pages * PAGE || regions[region].pages === 0) {
      base += regions[region++].pages;
    }
    return base + (address - regions[region].start) / PAGE;
  };
  for (const range of reads(rangesOfPages(used))) {
    for (let done = 0; done < range.length;) {
      const read = await readOrSkip(
        pid,
        { address: range.address + done, length: range.length - done },
        buffer,
      );
      if (read < 0) return;
      for (let at = 0; at + PAGE <= read; at += PAGE) {
        yield {
          templatePage: templatePage(range.address + done + at),
          bytes: buffer.subarray(at, at + PAGE),
        };
      }
      // Where the read ended, a page has gone: on to the one behind it.
      done += read + (done + read < range.length ? PAGE : 0);
    }
  }
}

/** Bytes read, in whole pages; 0 when the first page can not be read, -1 when the process is gone. */
async function readOrSkip(pid: number, range: Range, into: Uint8Array): Promise<number> {
  try {
    const read = await processRead(pid, [range], into.subarray(0, range.length));
    return read - (read % PAGE);
  } catch (error) {
    if (error instanceof SystemError && error.code === 'EFAULT') return 0;
    if (error instanceof SystemError && error.code === 'ESRCH') return -1;
    throw error;
  }
}
