import { AgentZipError } from '../../errors.js';
import { vectorsOf } from '../../memory/pageout.js';
import { releaseCached } from '../../memory/release.js';
import { rangesOfPages } from '../../memory/restore.js';
import { drainZswap, loadsTake, pastZswap, zswapStat } from '../../memory/zswap.js';
import { claimPass, lookFirst } from '../claims/claims.js';
import type { Context } from '../context.js';
import type { Look } from '../../memory/look.js';
import type { Member } from '../sandboxes/member.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import type { PageOut } from './page-out.js';
import { pause, type Window } from './window.js';
import { claimantOf, type WindowJob } from './window-job.js';

/** What is brought down without a pause: zswap is passed by meanwhile. */
const STEP_BYTES = 1 << 20;
/** What has come down is claimed so often: after 5 s the pager makes what nobody claims smaller by itself (TIDY_MS). */
const CLAIM_MS = 1_000;

/**
 * With zswap before the pager's device: brings what a waiting sandbox has in zswap down to the pager, once it has waited for
 * `pager.zswap.warmMs`. The kernel writes back what it chooses, and offers no way to name pages (to 6.18 at least): so where
 * reading a page takes it out of zswap, each is read and paged out anew, past zswap. Older kernels write back all they hold.
 */
export class BringDown {
  /** Windows of sandboxes whose pages may have come down with those of another, and may be claimed. */
  private readonly along = new WeakSet<Window>();

  constructor(
    private readonly context: Context,
    private readonly pageOut: PageOut,
  ) {}

  /** Returns how many pages came down; 0 where there is no zswap of ours. AZ_ZSWAP_WRITEBACK. */
  async all(job: WindowJob): Promise<number> {
    const { context } = this;
    const { sandbox, window } = job;
    if (context.info.tier !== 'zswap') return 0;
    await pause(context.policy.pager.zswap.warmMs, window.signal);
    let [down, cameAlong] = [0, false];
    // One at a time, and nobody pages out meanwhile: what reaches the device is what is brought there.
    await context.turns.pageOut(claimantOf(job), async (turn) => {
      cameAlong = this.along.delete(window);
      if (cameAlong) await claimPass(context, sandbox, window.signal);
      const warm = await this.mark(sandbox, (member, slots, sequence) => member.comingDown(slots, sequence));
      const count = [...warm.values()].reduce((sum, pages) => sum + pages.length, 0);
      if (count === 0) return;
      const before = zswapStat().pages;
      if (loadsTake()) await this.again(job, warm, turn);
      else await this.drain(job);
      down = Math.max(0, before - zswapStat().pages);
      if (down === 0 && before > 0 && window.open)
        throw new AgentZipError('AZ_ZSWAP_WRITEBACK', { sandbox: sandbox.id, pages: count });
    });
    if ((down > 0 || cameAlong) && window.open) await this.pageOut.settleLate(job);
    return down;
  }

  /** What each process has in zswap now, and from when on a write to one of those slots is a write of its page. */
  private async mark<T>(
    sandbox: Sandbox,
    note: (member: Member, slots: Look['slots'], sequence: number) => T,
  ): Promise<Map<Member, T>> {
    const looks = lookFirst(this.context, sandbox);
    const { sequence } = await this.context.pager.request('sequence', {});
    return new Map([...looks].map(([member, { slots }]) => [member, note(member, slots, sequence)]));
  }

  private async again(job: WindowJob, warm: Map<Member, number[]>, turn: () => Promise<void>): Promise<void> {
    const { policies } = this.context;
    const { window, sandbox } = job;
    const vectorBytes = policies.of(sandbox).pageout.vectorKiB * 1024;
    const ended = (): boolean => !window.open;
    let claimedAt = performance.now();
    for (const [member, pages] of warm) {
      for (const step of vectorsOf(rangesOfPages(pages), STEP_BYTES)) {
        await turn();
        if (ended()) return;
        await pastZswap(() => releaseCached(member, step, { vectorBytes, cancelled: ended }));
        window.worked();
        if (performance.now() - claimedAt < CLAIM_MS) continue;
        await claimPass(this.context, sandbox, window.signal);
        claimedAt = performance.now();
      }
    }
  }

  /** Of all that zswap holds, so also of other sandboxes that wait: those claim theirs at their turns. */
  private async drain({ sandbox, window }: WindowJob): Promise<void> {
    for (const other of this.context.registry.all()) {
      if (other === sandbox || other.window?.open !== true) continue;
      await this.mark(other, (member, slots, sequence) => member.comingAlong(slots, sequence));
      this.along.add(other.window);
    }
    const { poolPercent } = this.context.policy.pager.zswap;
    const ended = (): boolean => !window.open;
    while (!ended() && (await drainZswap(poolPercent, ended)) > 0) window.worked();
  }
}
