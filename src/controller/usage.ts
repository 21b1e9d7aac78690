import { byteTable, wordTable, type PageTable } from '../memory/page-table.js';

/**
 * How a page fared in the tool phase that is going on: put back ahead of use, seen used. A page that was put back
 * shows its first write (its entry is read-only until then), but not that it was only read.
 */
export const Mark = { NONE: 0, PUT_BACK: 1, USED: 2 } as const;

/** What the page table says of a page after the phase. */
export type Outcome = 'out' | 'present' | 'unmapped';

/** Low 16 bits: in which of the last 16 phases it was used, the latest in bit 0. Above: phases without evidence. */
const HISTORY_BITS = 16;
const HISTORY_MASK = 0xffff;
const BLIND = 1 << HISTORY_BITS;
/**
 * For so many phases a page is put back without a sign that it is wanted; then it is left out once, and shows by a
 * fault whether it is. Longer for pages that were wanted more than once: they may only be read.
 */
const BLIND_PHASES = 1;
const BLIND_PHASES_PROVEN = 4;
/** Weight of a phase against the one after it. */
const DECAY = 0.5;

export interface PhaseCounts {
  /** Pages asked for that had not been put back. */
  demand: number;
  /** Pages put back that were seen used, and those that were not (some of these may have been read). */
  used: number;
  wasted: number;
}

/** Weight of a history: its phases' weights summed. */
function score(history: number, phases: number): number {
  let sum = 0;
  let weight = 1;
  for (let i = 0; i < phases; i++, weight *= DECAY) if (history & (1 << i)) sum += weight;
  return sum;
}

const isProven = (history: number): boolean => (history & (history - 1)) !== 0;

export interface Candidate {
  page: number;
  score: number;
}

/** Which pages of one process recent tool phases used. */
export class Usage {
  private history = wordTable();
  private marks: PageTable<Uint8Array> = byteTable();

  /** `phases`: how many tool phases back count, at most 16. */
  constructor(private readonly phases: number) {}

  /** It was put back before anybody asked. */
  putBack(page: number): void {
    this.marks.set(page, Mark.PUT_BACK);
  }

  mark(page: number): number {
    return this.marks.get(page);
  }

  /** Sure evidence of use. Returns whether it is news. */
  used(page: number): boolean {
    const mark = this.marks.get(page);
    if ((mark & Mark.USED) !== 0) return false;
    this.marks.set(page, mark | Mark.USED);
    return true;
  }

  /**
   * Ends a tool phase. `outcome` tells what became of each page that was out or put back. Counts as demand only what
   * {@link used} has not already told of. Pages that the phase made are no evidence: what one tool leaves behind the
   * next one mostly does not want, and a page that is wanted shows it by its fault.
   */
  endPhase(out: Iterable<number>, outcome: (page: number) => Outcome): PhaseCounts {
    const counts: PhaseCounts = { demand: 0, used: 0, wasted: 0 };
    for (const page of out) {
      if (this.marks.get(page) !== Mark.NONE || outcome(page) !== 'present') continue;
      counts.demand++;
      this.used(page);
    }
    this.age(counts);
    this.marks = byteTable();
    return counts;
  }

  private age(counts: PhaseCounts): void {
    const history = wordTable();
    this.history.forEach((page, word) => {
      const aged = this.marks.get(page) === Mark.PUT_BACK ? word + BLIND : (word << 1) & HISTORY_MASK;
      if (aged !== 0) history.set(page, aged);
    });
    this.marks.forEach((page, mark) => {
      if (mark === Mark.PUT_BACK) counts.wasted++;
      if ((mark & Mark.USED) === 0) return;
      if (mark !== Mark.USED) counts.used++;
      history.set(page, (history.get(page) & HISTORY_MASK) | 1);
    });
    this.history = history;
  }

  /** Pages to put back, in address order. */
  candidates(): Candidate[] {
    const found: Candidate[] = [];
    this.history.forEach((page, word) => {
      const history = word & HISTORY_MASK;
      const blind = word >>> HISTORY_BITS;
      const value = score(history, this.phases);
      const patience = isProven(history) ? BLIND_PHASES_PROVEN : BLIND_PHASES;
      if (value > 0 && blind < patience) found.push({ page, score: value });
    });
    return found;
  }

  /** Was it seen used in one of the last `phases` tool phases? */
  isHot(page: number, phases: number): boolean {
    return (this.history.get(page) & ((1 << phases) - 1)) !== 0;
  }

  /** The address space was replaced. */
  clear(): void {
    this.history.clear();
    this.marks.clear();
  }
}
