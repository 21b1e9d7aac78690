import { AgentZipError } from '../errors.js';
import { forEachPage, rangesOfPages, restore, type Range, type RestoreOptions } from '../memory/restore.js';
import type { Context } from './context.js';
import type { Member } from './member.js';
import type { Bet } from './prefetch.js';
import type { Sandbox } from './sandbox.js';
import { SAMPLE_OF } from './forecast.js';
import { Mark } from './usage.js';

/** A page with at least this chance of use is mapped: less sure ones shall show whether they are used. */
const SURE = 0.9;
/** Pages that other work pages out again meanwhile are fetched again, this often. */
const RESTORE_PASSES = 8;

/** Puts pages of sandboxes back. */
export class Restorer {
  constructor(private readonly context: Context) {}

  /** Puts back what the next tool will probably use. Returns the pages restored. */
  async prefetch(sandbox: Sandbox): Promise<number> {
    const { policy, predictor, turns, pollProbes } = this.context;
    sandbox.prefetched = true;
    if (!policy.prefetch.enabled) return 0;
    pollProbes();
    const signal = sandbox.prefetchSignal;
    const bets = predictor.foresee(sandbox);
    const from = performance.now();
    const restored = await turns.restore(async () => {
      let pages = 0;
      for (const bet of bets) pages += await this.pay(bet, signal);
      return pages;
    });
    sandbox.prefetchRoom -= restored;
    sandbox.lastPrefetchMs = performance.now() - from;
    sandbox.prefetchedPages += restored;
    return restored;
  }

  /** Puts every page back. AZ_TIMEOUT when pages keep leaving. */
  async all(sandbox: Sandbox): Promise<void> {
    const { info, turns } = this.context;
    const never = { cancelled: () => false };
    const started = Date.now();
    await turns.restore(async () => {
      for (let pass = 0; pass < RESTORE_PASSES; pass++) {
        let out = 0;
        for (const member of sandbox.members.values()) {
          const look = member.refresh({ flags: false, swapType: info.swapType });
          if (look === null || look.swappedPages === 0) continue;
          const pages: number[] = [];
          look.slots.forEach((page) => pages.push(page));
          out += pages.length;
          await this.putBack(member, pages, never);
        }
        if (out === 0) return;
      }
      throw new AgentZipError('AZ_TIMEOUT', {
        what: `paging sandbox ${sandbox.id} back in`,
        seconds: Math.round((Date.now() - started) / 1000),
        remedy: 'check that its memory limit holds all of it, then ask again',
      });
    });
  }

  /** Puts back what was chosen. Most sure pages are mapped, so that the tool does not fault on them at all. */
  private async pay({ process: member, pages }: Bet<Member>, signal: AbortSignal): Promise<number> {
    const marks = new Map(
      pages.map(({ page, chance }) => {
        if (chance < SURE) return [page, Mark.READY];
        return [page, Math.random() * SAMPLE_OF < 1 ? Mark.READY | Mark.SAMPLE : Mark.MAPPED];
      }),
    );
    const wanted = [...marks.keys()].filter((page) => member.usage.mark(page) === Mark.NONE);
    const maps = (page: number): boolean => marks.get(page) === Mark.MAPPED;
    for (const page of wanted) member.usage.ask(page);
    const restored = (vector: readonly Range[]): void => {
      // First what the tool had to wait for.
      this.context.pollProbes();
      if (!signal.aborted)
        forEachPage(vector, (page) => member.usage.putBack(page, marks.get(page) ?? Mark.NONE));
    };
    const count = await this.putBack(member, wanted, { cancelled: () => signal.aborted, maps, restored });
    if (!signal.aborted) this.verify(member, wanted.slice(0, count).filter(maps));
    return count;
  }

  /** What should be mapped and is still out was not put back: the tool will have to wait for it. */
  private verify(member: Member, pages: readonly number[]): void {
    const slots = member.peek(this.context.info.swapType)?.slots;
    for (const page of pages) if (slots?.get(page)) member.usage.missing(page);
  }

  /** Returns how many of the pages, in their order, were asked for until the end or the signal. */
  private async putBack(member: Member, pages: readonly number[], options: RestoreOptions): Promise<number> {
    if (pages.length === 0 || options.cancelled()) return 0;
    const { slots } = member.look ?? {};
    if (slots !== undefined) {
      const expected = Uint32Array.from(pages, (page) => slots.get(page)).filter((slot) => slot !== 0);
      await this.context.pager.expect(expected);
    }
    const result = await restore(member, rangesOfPages(pages), options);
    return result.pages;
  }
}
