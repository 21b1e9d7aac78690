import { close } from '../../native/files.js';
import { SystemError } from '../../native/errno.js';
import { pidfdOpen, type Range } from '../../native/process.js';
import { lookAt, type Look, type LookOptions } from '../../memory/look.js';
import { byteTable, wordTable, type PageTable } from '../../memory/page-table.js';
import { identify, isAlive, type ProcessId } from '../../memory/process.js';
import { solePages } from '../../memory/references.js';
import { forEachPage, rangesOfPages } from '../../memory/restore.js';
import type { Pager } from '../../pager/client.js';
import type { PagerInfo } from '../../pager/protocol.js';
import type { Forecast } from '../windows/forecast.js';
import { Usage, type Outcome } from '../prefetch/usage.js';

/** Sent out, perhaps without a write; known to be in the swap cache. */
const LEFT = 1;
const CACHED = 2;
/** Brought down from zswap, perhaps in vain. */
const DOWN = 3;

/** One process of a sandbox, and what the ledger knows of its pages. */
export class Member {
  /** The last look taken to act on; null before the first window. */
  look: Look | null = null;
  /** Page → slot that the pager has accepted as this sandbox's in the window that is open, for as long as the page stays out. */
  readonly claimed = wordTable();
  /** Pages that may be in the swap cache without being mapped: LEFT or CACHED. */
  private readonly cached = byteTable();
  /** Tier zswap: pages that zswap holds, as far as is known; and those that the pager accepted in earlier windows. */
  private readonly warm = byteTable();
  private readonly accepted = wordTable();
  /** Where each page was before the last was brought down, and the write sequence then; null: none was in this window. */
  private down: { slots: PageTable<Uint32Array>; sequence: number } | null = null;
  /** Pages that were nobody else's when they last went, and the pager's write sequence before the first of them did. */
  private sole = byteTable();
  soleSince: number | null = null;
  /** Write sequence before the first page that is LEFT went. */
  private leftAt: number | null = null;

  /** What was expected of the tool phase that is going on. */
  forecast: Forecast | null = null;

  private newest: { at: number; look: Look | null } = { at: -Infinity, look: null };

  private constructor(
    readonly process: ProcessId,
    readonly pidfd: number,
    readonly usage: Usage,
  ) {}

  /** The process behind a pid now, or null when there is none. */
  static adopt(pid: number): Member | null {
    const found = identify(pid);
    if (found === null) return null;
    try {
      const member = new Member(found, pidfdOpen(pid), new Usage());
      if (isAlive(found)) return member;
      member.close();
      return null;
    } catch (error) {
      if (error instanceof SystemError && (error.code === 'ESRCH' || error.code === 'EINVAL')) return null;
      throw error;
    }
  }

  get pid(): number {
    return this.process.pid;
  }

  /** Looks without remembering it for what is acted on. Null: the process is gone. */
  peek(swapType: number): Look | null {
    return this.note(lookAt(this.process, { flags: false, swapType, known: this.look?.vmas }));
  }

  /** The newest look, whoever took it, for those who only show it. Null: there was none. */
  get shown(): Look | null {
    return this.newest.look;
  }

  /** Is the newest look older than `ms`? */
  isOlder(ms: number): boolean {
    return performance.now() - this.newest.at > ms;
  }

  /** Looks, and remembers it. The first look of a window reads the VMA flags; later ones build on it. */
  refresh(options: Omit<LookOptions, 'known'>): Look | null {
    return (this.look = this.note(lookAt(this.process, { ...options, known: this.look?.vmas })));
  }

  /** Looks again within a window, at the mappings that are known, and remembers it. */
  lookAgain(swapType: number): Look | null {
    return this.refresh({ flags: false, trusting: true, swapType });
  }

  /** The same, and only where the last look found pages: for those who want to know what has become of them. */
  lookBack(swapType: number): Look | null {
    return this.refresh({ flags: false, trusting: true, within: this.look?.runs, swapType });
  }

  private note(look: Look | null): Look | null {
    this.newest = { at: performance.now(), look };
    return look;
  }

  /** Is the page out, as far as the last look and the faults since then tell? */
  isOut(page: number): boolean {
    return this.look !== null && this.look.slots.get(page) !== 0;
  }

  /**
   * What the tool phase since the last look has made of pages: compares that look with a new one, which it remembers. Null
   * when there is nothing to compare.
   */
  lookAfter(swapType: number): { out: number[]; outcome: (page: number) => Outcome } | null {
    this.sole = byteTable();
    this.soleSince = null;
    const before = this.look;
    const now = this.refresh({ flags: true, swapType });
    if (before === null || now === null) return null;
    const owned = pagesOf(now);
    const out: number[] = [];
    before.slots.forEach((page) => out.push(page));
    const outcome = (page: number): Outcome =>
      now.slots.get(page) !== 0 ? 'out' : owned.get(page) !== 0 ? 'present' : 'unmapped';
    return { out, outcome };
  }

  /** A page that is out was read into the swap cache. */
  noteCached(page: number): void {
    this.cached.set(page, CACHED);
  }

  /** What is to go out: all it owns, but for pages seen used in the last `hotPhases` tool phases. */
  goingOut(hotPhases: number): readonly Range[] {
    const owned = this.look?.owned ?? [];
    if (hotPhases === 0) return owned;
    const cold: number[] = [];
    forEachPage(owned, (page) => {
      if (!this.usage.isHot(page, hotPhases)) cold.push(page);
    });
    return rangesOfPages(cold);
  }

  /** These pages are about to go out; `sequence` is the pager's write sequence before that. */
  leaving(ranges: readonly Range[], sequence: number): void {
    this.leftAt ??= sequence;
    this.soleSince ??= sequence;
    const sole = solePages(this.process, ranges);
    forEachPage(ranges, (page) => {
      this.cached.set(page, LEFT);
      // It may be written again, to the very slot it had.
      this.claimed.set(page, 0);
      this.sole.set(page, sole.get(page));
    });
  }

  /**
   * Pages whose memory is still taken although they are out: those that were written when they went. A clean page is
   * freed at once. Ask when the writes have settled, after a look.
   */
  async cachedPages(pager: Pager, tier: PagerInfo['tier']): Promise<number[]> {
    const left: number[] = [];
    this.cached.forEach((page, state) => {
      if (!this.isOut(page)) this.cached.set(page, 0);
      else if (state !== CACHED) left.push(page);
    });
    const slots = Uint32Array.from(left, (page) => this.look!.slots.get(page));
    if (this.leftAt !== null && left.length > 0) {
      const written = await pager.writtenSince(this.leftAt, slots);
      left.forEach((page, i) => {
        if (tier === 'zswap' && !written(i) && this.cached.get(page) === LEFT) this.warm.set(page, 1);
        this.cached.set(page, written(i) ? CACHED : 0);
      });
    }
    this.leftAt = null;
    const pages: number[] = [];
    this.cached.forEach((page) => pages.push(page));
    return pages;
  }

  /**
   * Tier zswap: what it holds of this process, with the slots of a look and the write sequence after that, is about to be brought
   * down. Returns the pages; what does not come down is not tried again before it has gone out anew.
   */
  comingDown(slots: PageTable<Uint32Array>, sequence: number): number[] {
    this.down = null;
    const pages = this.comingAlong(slots, sequence);
    this.warm.clear();
    return pages;
  }

  /** Tier zswap: the same, of what may come down with that of another sandbox; it may be tried again. */
  comingAlong(slots: PageTable<Uint32Array>, sequence: number): number[] {
    // What came down earlier is claimed by the look before that.
    this.down ??= { slots, sequence };
    this.leftAt ??= sequence;
    const pages: number[] = [];
    this.warm.forEach((page) => {
      if (this.isOut(page)) pages.push(page);
    });
    for (const page of pages) {
      this.cached.set(page, DOWN);
      // It may be written, to the very slot it had: what was accepted holds if it is not.
      const claimed = this.claimed.get(page);
      if (claimed !== 0) this.accepted.set(page, claimed);
      this.claimed.set(page, 0);
    }
    return pages;
  }

  /**
   * Tier zswap: which pages the device has, of those that `slots` shows. What zswap holds was never written, and the slot may still
   * have what somebody else wrote there. So it counts only if it was written since a look that showed the page in that slot.
   */
  async onDevice(pager: Pager, slots: PageTable<Uint32Array>): Promise<PageTable<Uint32Array>> {
    const found = wordTable();
    const pages: number[] = [];
    slots.forEach((page, slot) => {
      if (this.down?.slots.get(page) === slot) pages.push(page);
      else if (this.accepted.get(page) === slot) this.claimed.set(page, slot);
    });
    if (this.down === null || pages.length === 0) return found;
    const written = await pager.writtenSince(
      this.down.sequence,
      Uint32Array.from(pages, (page) => slots.get(page)),
    );
    pages.forEach((page, i) => {
      const slot = slots.get(page);
      if (written(i)) found.set(page, slot);
      else if (this.accepted.get(page) === slot) this.claimed.set(page, slot);
    });
    return found;
  }

  /**
   * A window begins: claims are renewed, for a page may have been written again to the very slot it had. Tier zswap: what was not
   * written needs none, if it had one.
   */
  renew(tier: PagerInfo['tier']): void {
    if (tier === 'zswap') this.claimed.forEach((page, slot) => this.accepted.set(page, slot));
    this.claimed.clear();
    this.down = null;
  }

  /** Had nobody else the page when it last went out in this window? */
  wasSole(page: number): boolean {
    return this.sole.get(page) !== 0;
  }

  released(pages: readonly number[]): void {
    for (const page of pages) this.cached.set(page, 0);
  }

  /** exec: all of the address space is gone. */
  replaced(): void {
    this.cameIn();
    this.usage.clear();
    this.forecast = null;
  }

  /** None of its pages is where it was: what is known of slots holds no longer. */
  cameIn(): void {
    this.look = null;
    this.claimed.clear();
    this.accepted.clear();
    this.warm.clear();
    this.down = null;
    this.cached.clear();
    this.sole.clear();
    this.soleSince = null;
    this.leftAt = null;
  }

  close(): void {
    close(this.pidfd);
  }
}

function pagesOf(look: Look): PageTable<Uint8Array> {
  const pages = byteTable();
  forEachPage(look.owned, (page) => pages.set(page, 1));
  return pages;
}
