import type { PrefetchStatus } from '../api.js';

/** What became of the pages of one process, or of many, in tool phases. Pages put back stand for others like them. */
export interface PhaseCounts {
  /** Pages that a tool waited for, and those of them that nobody has told of yet. */
  demand: number;
  news: number;
  /** Pages put back that were used, and those that were not, as samples tell. */
  used: number;
  wasted: number;
  /** Pages put back that had been expected to go unused. */
  expectedWaste: number;
  /** Of those put back: made ready while the tool ran, and used then. */
  ahead: number;
  aheadUsed: number;
}

export const noCounts = (): PhaseCounts => ({
  ...{ demand: 0, news: 0, used: 0, wasted: 0, expectedWaste: 0, ahead: 0, aheadUsed: 0 },
});

/** Weight of what was, each time a phase is added. */
const DECAY = 0.95;
/** Pages from which on figures mean something; before that, bets are placed as if they were fair. */
const ENOUGH_PAGES = 256;
const MOST_OPTIMISM = 4;

const quotient = (part: number, all: number): number | null => (all > 0 ? part / all : null);

/** How good the predictions for a kind of sandbox are. */
export class PrefetchScore {
  private readonly recent = noCounts();
  private readonly total = noCounts();
  private phases = 0;

  note(counts: PhaseCounts): void {
    this.phases++;
    for (const key of Object.keys(this.recent) as (keyof PhaseCounts)[]) {
      this.recent[key] = this.recent[key] * DECAY + counts[key];
      this.total[key] += counts[key];
    }
  }

  /** Waste that was over waste that had been expected: more than 1 when the predictions promise too much. */
  get optimism(): number {
    const { used, wasted, expectedWaste } = this.recent;
    if (used + wasted < ENOUGH_PAGES) return 1;
    return Math.min(MOST_OPTIMISM, Math.max(1, wasted / Math.max(1, expectedWaste)));
  }

  /** Part of what was made ready ahead of a running tool that the tool then used; 1 while too little is known. */
  get aheadAccuracy(): number {
    const { ahead, aheadUsed } = this.recent;
    return ahead < ENOUGH_PAGES ? 1 : aheadUsed / ahead;
  }

  /** Of late; null: nothing was put back, or used. */
  get figures(): { accuracy: number | null; coverage: number | null; phases: number } {
    const { used, wasted, demand } = this.recent;
    const { phases } = this;
    return { accuracy: quotient(used, used + wasted), coverage: quotient(used, used + demand), phases };
  }

  /** Of several scores as of one. */
  static status(scores: readonly PrefetchScore[]): PrefetchStatus {
    const sum = (of: (score: PrefetchScore) => number): number =>
      scores.reduce((total, score) => total + of(score), 0);
    const used = sum(({ recent }) => recent.used);
    return {
      phases: sum(({ phases }) => phases),
      demandFaults: sum(({ total }) => total.demand),
      usedPages: Math.round(sum(({ total }) => total.used)),
      wastedPages: Math.round(sum(({ total }) => total.wasted)),
      accuracy: quotient(used, used + sum(({ recent }) => recent.wasted)),
      coverage: quotient(used, used + sum(({ recent }) => recent.demand)),
    };
  }
}
