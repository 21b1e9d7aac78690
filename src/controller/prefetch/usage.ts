import { byteTable, wordTable, type PageTable } from '../../memory/page-table.js';
import { nextHistory, usesOf } from './prefetch-model.js';

/**
 * How a page fared in the tool phase that is going on. A page that was put back and MAPPED shows its first write (its
 * entry is read-only until then), but not that it was only read. One that is READY is in memory and not mapped: it costs
 * its first user two microseconds, and shows every use by a fault. A SAMPLE is ready and stands for pages that were mapped;
 * AHEAD was made ready while the tool ran. What is only ASKED for is not there yet: a tool that wants it waits.
 */
export const Mark = { NONE: 0, MAPPED: 1, READY: 2, USED: 4, AHEAD: 8, SAMPLE: 16, ASKED: 32 } as const;
const PUT_BACK = Mark.MAPPED | Mark.READY;

/** Does a tool that uses the page have to wait for it, going by its mark? */
export const isDemand = (mark: number): boolean => (mark & PUT_BACK) === 0;

/** What the page table says of a page after the phase. */
export type Outcome = 'out' | 'present' | 'unmapped';

/**
 * Faults of the first step in the order of use; every further one has four times as many. Finer steps would tear pages
 * apart that are read together at a fraction of the cost. A page keeps the step of its last fault.
 */
const STEP_FAULTS = 64;
const STEP_FACTOR = 4;
const STEPS = 4;

/** Which pages of one process recent tool phases used. Histories are those of {@link nextHistory}. */
export class Usage {
  private histories = wordTable();
  private marks: PageTable<Uint8Array> = byteTable();
  private readonly steps = byteTable();
  private faults = 0;

  /** It is about to be put back. */
  ask(page: number): void {
    this.marks.set(page, this.marks.get(page) | Mark.ASKED);
  }

  /** It was put back; not before anybody asked when it has been used meanwhile. */
  putBack(page: number, mark: number): void {
    if (!this.isUsed(page)) this.marks.set(page, mark);
  }

  /** It was to be put back, and is not there. */
  missing(page: number): void {
    this.marks.set(page, this.marks.get(page) & Mark.USED);
  }

  mark(page: number): number {
    return this.marks.get(page);
  }

  /** Sure evidence of use, in the order of use. Returns whether it is news. */
  used(page: number): boolean {
    const mark = this.marks.get(page);
    if ((mark & Mark.USED) !== 0) return false;
    this.marks.set(page, mark | Mark.USED);
    const step = Math.ceil(Math.log(++this.faults / STEP_FAULTS) / Math.log(STEP_FACTOR));
    this.steps.set(page, Math.min(STEPS, 1 + Math.max(0, step)));
    return true;
  }

  /** A tool has waited for it, whatever else was done to bring it back. Returns whether its use is news. */
  demanded(page: number): boolean {
    if (this.isUsed(page)) return false;
    this.missing(page);
    return this.used(page);
  }

  isUsed(page: number): boolean {
    return (this.mark(page) & Mark.USED) !== 0;
  }

  /** Was it put back unmapped? */
  isReady(page: number): boolean {
    return (this.mark(page) & Mark.READY) !== 0;
  }

  history(page: number): number {
    return this.histories.get(page);
  }

  /** How early the page was used when that was last seen; what was never seen comes last. */
  step(page: number): number {
    return this.steps.get(page) || STEPS;
  }

  /**
   * Was the page used, going by its mark and by what became of it? Null when nobody can tell: it was mapped, and not
   * written. Pages that the phase made are no evidence: what one tool leaves behind the next one mostly does not want.
   */
  verdict(page: number, outcome: Outcome): boolean | null {
    const mark = this.marks.get(page);
    if ((mark & Mark.USED) !== 0) return true;
    if ((mark & Mark.MAPPED) !== 0) return null;
    return outcome === 'present';
  }

  /** Ends a tool phase. `wasUsed` tells of each page that was out when it began; all others were not used. */
  endPhase(pages: readonly number[], wasUsed: (page: number, index: number) => boolean): void {
    const histories = wordTable();
    this.histories.forEach((page, history) => {
      const next = nextHistory(history, false);
      // What was not used for long and is not there any more is forgotten.
      if (usesOf(next) !== 0) histories.set(page, next);
    });
    pages.forEach((page, i) => histories.set(page, nextHistory(this.histories.get(page), wasUsed(page, i))));
    this.histories = histories;
    this.marks = byteTable();
    this.faults = 0;
  }

  /** Was it seen used in one of the last `phases` tool phases? */
  isHot(page: number, phases: number): boolean {
    return (usesOf(this.histories.get(page)) & ((1 << phases) - 1)) !== 0;
  }

  /** The address space was replaced. */
  clear(): void {
    this.histories.clear();
    this.marks.clear();
    this.steps.clear();
    this.faults = 0;
  }
}
