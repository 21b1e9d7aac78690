import { AgentZipError } from '../errors.js';
import { rangesOfPages, restore } from '../memory/restore.js';
import type { Context } from './context.js';
import type { Member } from './member.js';
import { NOTHING, putBackBets, type Restored } from './put-back.js';
import type { Sandbox } from './sandbox.js';

/** Pages that other work pages out again meanwhile are fetched again, this often. */
const RESTORE_PASSES = 8;

/** Puts pages of sandboxes back. */
export class Restorer {
  constructor(private readonly context: Context) {}

  /** Does what the prefetch will need and takes time. */
  prepare(sandbox: Sandbox): void {
    if (!this.context.policies.of(sandbox).prefetch.enabled) return;
    sandbox.prepared = true;
    this.context.predictor.prepare(sandbox);
  }

  /** Puts back what the next tool will probably use. */
  async prefetch(sandbox: Sandbox): Promise<Restored> {
    const { policies, predictor, turns, pollProbes } = this.context;
    sandbox.prefetched = true;
    if (!policies.of(sandbox).prefetch.enabled) return NOTHING;
    pollProbes();
    const signal = sandbox.prefetchSignal;
    if (!sandbox.prepared) this.prepare(sandbox);
    const bets = predictor.foresee(sandbox);
    const from = performance.now();
    const restored = await turns.restore(() => putBackBets(this.context, bets, signal));
    sandbox.prefetchRoom -= restored.pages;
    sandbox.lastPrefetchMs = performance.now() - from;
    sandbox.prefetchedPages += restored.pages;
    return restored;
  }

  /** Puts every page back. AZ_TIMEOUT when pages keep leaving. */
  async all(sandbox: Sandbox): Promise<void> {
    const { info, turns } = this.context;
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
          await this.putBack(member, pages);
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

  private async putBack(member: Member, pages: readonly number[]): Promise<void> {
    const { slots } = member.look ?? {};
    if (slots !== undefined) {
      const expected = Uint32Array.from(pages, (page) => slots.get(page)).filter((slot) => slot !== 0);
      await this.context.pager.expect(expected);
    }
    await restore(member, rangesOfPages(pages), { cancelled: () => false });
  }
}
