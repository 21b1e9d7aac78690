import { byteTable, wordTable, type PageTable } from '../memory/page-table.js';

/**
 * How a page fared in the tool phase that is going on. A page that was mapped ahead of use leaves no trace when it is
 * used; one that is only in the swap cache does, because its first use maps it.
 */
export const Mark = { NONE: 0, MAPPED: 1, READ_AHEAD: 2, USED: 4 } as const;

/** What the page table says of a page after the phase. */
export type Outcome = 'out' | 'present' | 'unmapped';

/** Low 16 bits: in which of the last 16 phases it was used, the latest in bit 0. Above: phases without evidence. */
const HISTORY_BITS = 16;
const HISTORY_MASK = 0xffff;
const BLIND = 1 << HISTORY_BITS;
/** After so many phases in which its use could not be seen, a page is only read ahead, to learn of it again. */
const BLIND_PHASES = 2;
/** Weight of a phase against the one after it. */
const DECAY = 0.5;

export interface PhaseCounts {
  /** Pages asked for that had not been put back. */
  demand: number;
  /** Pages put back and then used, and not used, as far as it could be seen. */
  used: number;
  wasted: number;
  /** Pages read ahead that nobody used: they sit in the swap cache. */
  cached: number[];
}

/** Weight of a history: its phases' weights summed. */
function score(history: number, phases: number): number {
  let sum = 0;
  let weight = 1;
  for (let i = 0; i < phases; i++, weight *= DECAY) if (history & (1 << i)) sum += weight;
  return sum;
}

export interface Candidate {
  page: number;
  score: number;
  /** Use of it has not been seen for some phases. */
  blind: boolean;
}

/** Which pages of one process recent tool phases used. */
export class Usage {
  private history = wordTable();
  private marks: PageTable<Uint8Array> = byteTable();

  /** `phases`: how many tool phases back count, at most 16. */
  constructor(private readonly phases: number) {}

  /** It was put back before anybody asked. */
  prefetched(page: number, mapped: boolean): void {
    this.marks.set(page, mapped ? Mark.MAPPED : Mark.READ_AHEAD);
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
   * Ends a tool phase. `outcome` tells what became of each page that was out or put back; `fresh` are pages that the
   * sandbox has written anew. Counts only what was not already counted by {@link used}.
   */
  endPhase(out: Iterable<number>, outcome: (page: number) => Outcome, fresh: Iterable<number>): PhaseCounts {
    const counts: PhaseCounts = { demand: 0, used: 0, wasted: 0, cached: [] };
    for (const page of out) this.judge(page, this.marks.get(page), outcome(page), counts);
    for (const page of fresh) this.used(page);
    const history = wordTable();
    this.history.forEach((page, word) => {
      const blind = (this.marks.get(page) & (Mark.MAPPED | Mark.USED)) === Mark.MAPPED;
      const aged = blind ? word + BLIND : (word << 1) & HISTORY_MASK;
      if (aged !== 0) history.set(page, aged);
    });
    this.marks.forEach((page, mark) => {
      if ((mark & Mark.USED) !== 0) history.set(page, (history.get(page) & HISTORY_MASK) | 1);
    });
    this.history = history;
    this.marks = byteTable();
    return counts;
  }

  private judge(page: number, mark: number, outcome: Outcome, counts: PhaseCounts): void {
    if ((mark & Mark.USED) !== 0) return;
    if (mark === Mark.READ_AHEAD && outcome !== 'present') counts.wasted++;
    if (mark === Mark.READ_AHEAD && outcome === 'out') counts.cached.push(page);
    if (mark === Mark.MAPPED || outcome !== 'present') return;
    if (mark === Mark.READ_AHEAD) counts.used++;
    else counts.demand++;
    this.used(page);
  }

  /** Pages that recent phases used, in no particular order. */
  candidates(): Candidate[] {
    const found: Candidate[] = [];
    this.history.forEach((page, word) => {
      const value = score(word & HISTORY_MASK, this.phases);
      if (value > 0) found.push({ page, score: value, blind: word >>> HISTORY_BITS >= BLIND_PHASES });
    });
    return found;
  }

  /** The address space was replaced. */
  clear(): void {
    this.history.clear();
    this.marks.clear();
  }
}
