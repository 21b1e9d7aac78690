import type { Candidate } from './usage.js';

/** Pages to put back in one process, in address order. */
export interface Bet<P> {
  process: P;
  pages: number[];
}

/**
 * Chooses what to put back: the most certain pages of all processes of a sandbox within `maxPages`, and of those only
 * pages that are out. Pure.
 */
export function placeBets<P>(
  processes: readonly { process: P; candidates: readonly Candidate[]; isOut: (page: number) => boolean }[],
  maxPages: number,
): Bet<P>[] {
  const all = processes.flatMap(({ candidates, isOut }, owner) =>
    candidates.filter(({ page }) => isOut(page)).map((candidate) => ({ owner, ...candidate })),
  );
  // The sort is stable and candidates come in address order, so ties stay together.
  all.sort((a, b) => b.score - a.score);
  const bets = processes.map(({ process }) => ({ process, pages: [] as number[] }));
  for (const { owner, page } of all.slice(0, maxPages)) bets[owner].pages.push(page);
  for (const { pages } of bets) pages.sort((a, b) => a - b);
  return bets.filter(({ pages }) => pages.length > 0);
}
