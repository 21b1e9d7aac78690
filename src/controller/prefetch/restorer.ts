import { AgentZipError } from '../../errors.js';
import type { Look } from '../../memory/look.js';
import { readMemoryFiles } from '../../memory/memory-files.js';
import { pagesOut } from '../../memory/pages-out.js';
import { rangesOfPages, restore } from '../../memory/restore.js';
import { announcer } from './announce.js';
import { noteSlots } from '../claims/claims.js';
import type { Context } from '../context.js';
import type { Member } from '../sandboxes/member.js';
import { NOTHING, putBackBets, type Restored } from './put-back.js';
import type { Sandbox } from '../sandboxes/sandbox.js';

/** Pages that other work pages out again meanwhile are fetched again, this often. */
const RESTORE_PASSES = 8;

function slotted({ slots }: Look): number[] {
  const pages: number[] = [];
  slots.forEach((page) => pages.push(page));
  return pages;
}

/** Puts pages of sandboxes back. */
export class Restorer {
  constructor(private readonly context: Context) {}

  /** Does what the prefetch will need and takes time. */
  prepare(sandbox: Sandbox): void {
    if (!this.context.policies.of(sandbox).prefetch.enabled) return;
    sandbox.prepared = true;
    this.context.predictor.prepare(sandbox);
    noteSlots(this.context, sandbox);
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
    const restored = await turns.restore(() => putBackBets(this.context, sandbox, bets, signal));
    sandbox.prefetchRoom -= restored.pages;
    sandbox.lastPrefetchMs = performance.now() - from;
    sandbox.prefetchedPages += restored.pages;
    return restored;
  }

  /**
   * Puts every page back that is out on our device; `everywhere`: on others too, for what is about to look at the sandbox's
   * memory does not tell them apart. AZ_TIMEOUT when pages keep leaving.
   */
  async all(sandbox: Sandbox, everywhere = false): Promise<void> {
    const { info, turns } = this.context;
    const started = Date.now();
    await turns.restore(async () => {
      for (let pass = 0; pass < RESTORE_PASSES; pass++) {
        let out = 0;
        // What is out of shared memory no page table tells: all of it is read.
        if (pass === 0 && sandbox.finding?.hazards.includes('shared_memfd') === true)
          await readMemoryFiles(sandbox.spec.pids ?? []);
        for (const member of sandbox.members.values()) {
          const look = member.refresh({ flags: false, swapType: info.swapType });
          if (look === null) continue;
          const pages = everywhere ? (pagesOut(member.process) ?? []) : slotted(look);
          if (pages.length === 0) continue;
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
    const announce = announcer(this.context.pager, member);
    await restore(member, rangesOfPages(pages), { cancelled: () => false, announce });
  }
}
