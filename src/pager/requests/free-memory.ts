import { readFileSync } from 'node:fs';
import { PAGE } from '../../native/libc.js';
import { FreeRam } from '../../native/system.js';

/** What the kernel keeps free before it gives memory to anybody, and before it stops looking for more; bytes. */
export interface Watermarks {
  min: number;
  high: number;
}

/** How many times what the kernel wants to have free: there is little memory below it. */
const LITTLE = 2;
/** A step that asks for memory takes 64 KiB and some pages of tables: it must not be the one that finds none. */
const STEP_BYTES = 2 ** 18;

/**
 * Tells from /proc/zoneinfo (Documentation/admin-guide/sysctl/vm.rst: min_free_kbytes, lowmem_reserve_ratio). What is free in a
 * zone is no use to anybody else as far as it is protected.
 */
export function watermarks(zoneinfo: string): Watermarks {
  const sum = { min: 0, high: 0 };
  for (const zone of zoneinfo.split(/^Node /m).slice(1)) {
    const pages = (name: string): number =>
      Number(new RegExp(`^ +${name} +(\\d+)$`, 'm').exec(zone)?.[1] ?? 0);
    const protection = /^ +protection: \(([\d, ]+)\)$/m.exec(zone)?.[1].split(', ').map(Number) ?? [0];
    for (const mark of ['min', 'high'] as const) {
      sum[mark] += PAGE * Math.min(pages('managed'), pages(mark) + Math.max(...protection));
    }
  }
  return sum;
}

/** The machine's free memory, for a thread that must not wait for any. Memory of the page cache does not count. */
export class FreeMemory {
  private readonly ram = new FreeRam();

  constructor(private readonly marks = watermarks(readFileSync('/proc/zoneinfo', 'latin1'))) {}

  /** Is so little free that soon there may be none for a moment? */
  get isLittle(): boolean {
    return this.ram.read() < LITTLE * this.marks.high;
  }

  /** Is a little to be had without having to look for it? */
  get isThere(): boolean {
    return this.ram.read() > this.marks.min + STEP_BYTES;
  }
}
