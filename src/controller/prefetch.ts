/** A page of a process that is out, and its chance to be used. */
export interface Candidate {
  page: number;
  chance: number;
}

/** Pages to put back in one process, those first that are used first. */
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
 * Chooses what to put back: the most certain pages of all processes of a sandbox, as many as the stakes allow. Pure.
 */
export function placeBets<P>(
  processes: readonly { process: P; candidates: readonly Candidate[]; step: (page: number) => number }[],
  { minUse, maxWaste, maxPages, optimism }: Stakes,
): Bet<P>[] {
  const all: { owner: number; page: number; chance: number }[] = [];
  processes.forEach(({ candidates }, owner) => {
    for (const { page, chance } of candidates) {
      const honest = 1 - Math.min(1, (1 - chance) * optimism);
      if (honest >= minUse) all.push({ owner, page, chance: honest });
    }
  });
  // The sort is stable and candidates come in address order, so ties stay together.
  all.sort((a, b) => b.chance - a.chance);
  const bets = processes.map(({ process }) => ({ process, pages: [] as Candidate[] }));
  let wasted = 0;
  for (const [i, { owner, page, chance }] of all.entries()) {
    wasted += 1 - chance;
    if (i >= maxPages || wasted > maxWaste * (i + 1)) break;
    bets[owner].pages.push({ page, chance });
  }
  bets.forEach(({ pages }, i) => {
    const { step } = processes[i];
    pages.sort((a, b) => step(a.page) - step(b.page) || a.page - b.page);
  });
  return bets.filter(({ pages }) => pages.length > 0);
}
