import { WEIGHT } from './gains.js';

/** Refining a page takes so many times as long as only making it smaller. */
const RUSH_GAIN = 3;

/** How long refining takes on this host now, whatever else wants its processors: what is not done when a window ends stays large. */
export class Pace {
  /** 0: not known. */
  private msAPage = 0;

  /** A worker had so many pages in hand for so long, ms; `rushed`: they were only made smaller. */
  learn(pages: number, ms: number, rushed: boolean): void {
    if (pages === 0 || ms <= 0) return;
    const last = (rushed ? RUSH_GAIN : 1) * (ms / pages);
    this.msAPage = this.msAPage === 0 ? last : this.msAPage + (last - this.msAPage) * WEIGHT;
  }

  /** Until `workers` have refined so many pages, ms; 0: not known. */
  timeFor(pages: number, workers: number): number {
    return (pages * this.msAPage) / workers;
  }
}
