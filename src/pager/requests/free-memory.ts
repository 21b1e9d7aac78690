import { closeSync, openSync, readSync } from 'node:fs';
import { PAGE } from '../../native/libc.js';
import { FreeRam } from '../../native/system.js';

/** A zone of the machine's memory, in pages, as /proc/zoneinfo has it. */
export interface Zone {
  free: number;
  managed: number;
  /** Nobody but the kernel itself takes what is below it, and at `high` it stops looking for more. */
  min: number;
  high: number;
  /** As much again is kept for those who can use no other zone (lowmem_reserve_ratio). */
  protection: number;
}

/** How many times what the kernel wants to have free: there is little memory below it. */
const LITTLE = 2;
/** A step takes 16 pages and some of tables: it must not be the one that finds none. */
const STEP_PAGES = 64;
/** Of what a look has found, and for how long: others take some, too. */
const GRANT = { share: 0.25, forMs: 10 };
/** Free pages that only blocks of several can be made from: a block of the allocator's, and 1 % of the zone. */
const HIGHATOMIC = { pages: 512, share: 0.01 };
/** A look at the zones is not worth more than a tenth of the time, nor one more often than this. */
const LOOK = { everyMs: 1, share: 0.1 };
const TEXT_BYTES = 2 ** 20;

const LINE = /^(Node)|^ +(?:pages )?(free|min|high|managed|protection:) +\(?([\d, ]+)/gm;

/** Tells zones from the text of /proc/zoneinfo; `min` and `high` are with what fragmentation adds to them for a time. */
export function zonesOf(text: string): Zone[] {
  const zones: Zone[] = [];
  for (const [, begin, name, numbers] of text.matchAll(LINE)) {
    if (begin !== undefined) {
      zones.push({ free: 0, managed: 0, min: 0, high: 0, protection: 0 });
      continue;
    }
    const zone = zones[zones.length - 1];
    if (zone === undefined) continue;
    if (name === 'protection:') zone.protection = Math.max(...numbers.split(',').map(Number));
    else zone[name as Exclude<keyof Zone, 'protection'>] = Number(numbers);
  }
  return zones;
}

/** What the kernel wants to have free, in bytes; it is no use to others as far as it is protected. */
export const wantedFree = (zones: readonly Zone[]): number =>
  zones.reduce((sum, { managed, high, protection }) => sum + PAGE * Math.min(managed, high + protection), 0);

/** How many pages the kernel would give somebody without looking for any. */
export const pagesThere = (zones: readonly Zone[]): number =>
  Math.max(
    0,
    ...zones.map(({ free, managed, min, protection }) => {
      return free - min - protection - HIGHATOMIC.pages - HIGHATOMIC.share * managed;
    }),
  );

/** The machine's free memory, for a thread that must not wait for any. Memory of the page cache does not count. */
export class FreeMemory {
  private readonly ram = new FreeRam();
  /** Kept open, so that the kernel needs no memory to write the text into. */
  private readonly file = openSync('/proc/zoneinfo', 'r');
  private readonly text = Buffer.alloc(TEXT_BYTES);
  private readonly wanted = wantedFree(this.zones());
  /** Pages that may be asked for until then. */
  private granted = 0;
  private grantedUntil = 0;
  private lookAgainAt = 0;

  /** Is so little free that soon there may be none for a moment? */
  get isLittle(): boolean {
    return this.ram.read() < LITTLE * this.wanted;
  }

  /** Are some pages to be had now without waiting? False, too, while it is too early for another look. */
  get isThere(): boolean {
    const now = performance.now();
    if (now > this.grantedUntil || this.granted < STEP_PAGES) this.look(now);
    if (this.granted < STEP_PAGES) return false;
    this.granted -= STEP_PAGES;
    return true;
  }

  close(): void {
    closeSync(this.file);
  }

  private look(now: number): void {
    this.granted = 0;
    if (now < this.lookAgainAt) return;
    this.granted = GRANT.share * pagesThere(this.zones());
    const then = performance.now();
    this.grantedUntil = then + GRANT.forMs;
    this.lookAgainAt = then + Math.max(LOOK.everyMs, (then - now) / LOOK.share);
  }

  private zones(): Zone[] {
    let length = 0;
    for (let more = -1; more !== 0 && length < TEXT_BYTES; length += more) {
      more = readSync(this.file, this.text, length, TEXT_BYTES - length, length);
    }
    return zonesOf(this.text.toString('latin1', 0, length));
  }
}
