import { forEachPage, pagesOf, rangesOfPages, restoreParts, type Range } from '../../memory/restore.js';
import { announcer } from './announce.js';
import type { Context } from '../context.js';
import { cameFirst } from '../faults/demand-faults.js';
import { SAMPLE_OF } from '../windows/forecast.js';
import type { Member } from '../sandboxes/member.js';
import type { Bet, Candidate } from './prefetch.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { Mark } from './usage.js';

/** A page with at least this chance of use is mapped: less sure ones shall show whether they are used. */
const SURE = 0.9;

/** Most sure pages are mapped, so that the tool does not fault on them at all; some show how such pages fare. */
function markOf({ chance }: Candidate): number {
  if (chance < SURE) return Mark.READY;
  return Math.random() * SAMPLE_OF < 1 ? Mark.READY | Mark.SAMPLE : Mark.MAPPED;
}

/** Pages put back, those meant and not put back, and the CPU time it took. */
export interface Restored {
  pages: number;
  left: number;
  cpuMs: number;
}
export const NOTHING: Readonly<Restored> = { pages: 0, left: 0, cpuMs: 0 };

/** Puts back what was bet on, in the order of the bets, until the signal. */
export async function putBackBets(
  { pager, pollProbes, waited, info }: Pick<Context, 'pager' | 'pollProbes' | 'waited' | 'info'>,
  sandbox: Sandbox,
  bets: readonly Bet<Member>[],
  signal: AbortSignal,
): Promise<Restored> {
  if (bets.length === 0) return NOTHING;
  let asked = 0;
  for (const { process: member, pages } of bets) {
    for (const { page } of pages) member.usage.ask(page);
    asked += pages.length;
  }
  const mapped = new Map<Member, number[]>();
  let count = 0;
  const parts = bets.map(({ process: target, pages }) => {
    const marks = new Map(pages.map((candidate) => [candidate.page, markOf(candidate)]));
    const own = mapped.get(target) ?? [];
    mapped.set(target, own);
    const maps = (page: number): boolean => marks.get(page) === Mark.MAPPED;
    // What is mapped and not by us a tool has asked for before it was there.
    const advised = (vector: readonly Range[]): void => cameFirst(sandbox, target, pagesOf(vector), waited);
    const restored = (vector: readonly Range[]): void => {
      // First what the tool had to wait for.
      pollProbes();
      if (signal.aborted) return;
      const unmapped = pagesOf(vector).filter((page) => !maps(page));
      cameFirst(sandbox, target, unmapped, waited);
      forEachPage(vector, (page) => {
        const mark = marks.get(page) ?? Mark.NONE;
        target.usage.putBack(page, mark);
        if (mark === Mark.MAPPED) own.push(page);
        count++;
      });
    };
    return {
      ...{ target, ranges: rangesOfPages(marks.keys()), maps, advised, restored },
      announce: announcer(pager, target),
    };
  });
  const { cpuMs } = await restoreParts(parts, { cancelled: () => signal.aborted });
  const pages = signal.aborted ? count : count - verify(mapped, info.swapType);
  return { pages, left: asked - pages, cpuMs };
}

/** What should be mapped and is still out was not put back: the tool will have to wait for it. Returns how many. */
function verify(mapped: ReadonlyMap<Member, readonly number[]>, swapType: number): number {
  let missing = 0;
  for (const [member, pages] of mapped) {
    const slots = pages.length === 0 ? undefined : member.peek(swapType)?.slots;
    for (const page of pages) {
      if (!slots?.get(page)) continue;
      member.usage.missing(page);
      missing++;
    }
  }
  return missing;
}
