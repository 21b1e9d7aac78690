/** A page of a process that is out, and its chance to be used. */
export interface Candidate {
  page: number;
  chance: number;
}

/** Pages to put back in one process at one time, in address order. */
export interface Bet<P> {
  process: P;
  pages: Candidate[];
}

export interface Stakes {
  /** Least chance of use at which putting a page back costs less than waiting for it. */
  minUse: number;
  /** Largest part of what is put back that may be expected to go unused. */
  maxWaste: number;
  maxPages: number;
  /** How much more of what was put back went unused of late than had been expected, as a factor. */
  optimism: number;
}

/**
 * Chooses what to put back: the most certain pages of all processes of a sandbox, as many as the stakes allow. `step`
 * says when in a phase a page is used: bets come in that order, and by address within a step, for pages that lie together
 * are read together at a fraction of the cost. Pure.
 */
export function placeBets<P>(
  processes: readonly { process: P; candidates: readonly Candidate[]; step: (page: number) => number }[],
  { minUse, maxWaste, maxPages, optimism }: Stakes,
): Bet<P>[] {
  const all: (Candidate & { owner: number; step: number })[] = [];
  processes.forEach(({ candidates, step }, owner) => {
    for (const { page, chance } of candidates) {
      const honest = 1 - Math.min(1, (1 - chance) * optimism);
      if (honest >= minUse) all.push({ owner, page, chance: honest, step: step(page) });
    }
  });
  // The sort is stable and candidates come in address order, so ties stay together.
  all.sort((a, b) => b.chance - a.chance);
  let wasted = 0;
  const reach = all.findIndex(({ chance }, i) => {
    wasted += 1 - chance;
    return i >= maxPages || wasted > maxWaste * (i + 1);
  });
  const chosen = reach < 0 ? all : all.slice(0, reach);
  chosen.sort((a, b) => a.step - b.step || a.owner - b.owner || a.page - b.page);
  const bets: Bet<P>[] = [];
  chosen.forEach(({ owner, page, chance, step }, i) => {
    if (i === 0 || chosen[i - 1].step !== step || chosen[i - 1].owner !== owner) {
      bets.push({ process: processes[owner].process, pages: [] });
    }
    bets[bets.length - 1].pages.push({ page, chance });
  });
  return bets;
}
