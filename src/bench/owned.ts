import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

const PAGE = 4096;
const ENTRIES = 128 * 1024;

// The upper words of bits 63 (present), 62 (swapped), 61 (file or shared), 56 (exclusive) of a pagemap entry;
// see Documentation/admin-guide/mm/pagemap.rst of the kernel.
const OWNED_MASK = 0x80000000 | 0x20000000 | 0x01000000 | 0;
const OWNED = 0x80000000 | 0x01000000 | 0;
const SWAPPED = 0x40000000;

export interface Memory {
  /** Bytes of pages that are present, anonymous and in no other process. */
  owned: number;
  /** Bytes of pages that are out. */
  swapped: number;
}

/**
 * Measures processes through /proc, on its own: nothing here is shared with the product it judges. One buffer is
 * reused for all reads, so use one meter from one thread.
 */
export class MemoryMeter {
  private readonly buffer = new Uint32Array(2 * ENTRIES);

  /** Sum over `pids`; a process that ends meanwhile counts as far as it was seen. */
  measure(pids: readonly number[]): Memory {
    const memory = { owned: 0, swapped: 0 };
    for (const pid of pids) this.add(pid, memory);
    return memory;
  }

  private add(pid: number, memory: Memory): void {
    let fd: number | undefined;
    try {
      const maps = readFileSync(`/proc/${pid}/maps`, 'latin1');
      fd = openSync(`/proc/${pid}/pagemap`, 'r');
      for (const [from, to] of privateRanges(maps)) this.scan(fd, from / PAGE, to / PAGE, memory);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code !== 'ENOENT' && code !== 'ESRCH') throw error;
    } finally {
      if (fd !== undefined) closeSync(fd);
    }
  }

  private scan(fd: number, from: number, to: number, memory: Memory): void {
    const words = this.buffer;
    let owned = 0;
    let swapped = 0;
    for (let page = from; page < to;) {
      const want = Math.min(to - page, ENTRIES);
      const got = Math.floor(readSync(fd, words, 0, want * 8, page * 8) / 8);
      if (got === 0) break;
      for (let i = 1; i < 2 * got; i += 2) {
        const flags = words[i];
        if ((flags & OWNED_MASK) === OWNED) owned++;
        else if ((flags & SWAPPED) !== 0) swapped++;
      }
      page += got;
    }
    memory.owned += owned * PAGE;
    memory.swapped += swapped * PAGE;
  }
}

/**
 * [start, end) addresses of the private mappings, neighbours joined: a library is four mappings and one read. Shared
 * mappings hold no page that is a process's own.
 */
function* privateRanges(maps: string): Generator<[number, number]> {
  let [from, to] = [0, 0];
  for (const line of maps.split('\n')) {
    const dash = line.indexOf('-');
    const space = line.indexOf(' ', dash);
    if (line[space + 4] !== 'p' || line.endsWith('[vsyscall]')) continue;
    const start = parseInt(line.slice(0, dash), 16);
    if (start !== to) {
      if (to > from) yield [from, to];
      from = start;
    }
    to = parseInt(line.slice(dash + 1, space), 16);
  }
  if (to > from) yield [from, to];
}
