import { type AdviceOptions, pageOut } from '../../memory/pageout.js';
import { releaseCached } from '../../memory/release.js';
import { rangesOfPages } from '../../memory/restore.js';
import { PAGE } from '../../native/libc.js';
import { ATTRIBUTES } from '../../otel/names.js';
import { claimSettled, lookFirst, type Looks } from '../claims/claims.js';
import type { Context } from '../context.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { settled } from './settle.js';
import { claimantOf, pagesOf, type WindowJob } from './window-job.js';

/** Awaited before each vector, so that whoever's turn it is goes first. */
type Turn = () => Promise<void>;

/** Sends the pages of waiting sandboxes out, each at its turn. */
export class PageOut {
  constructor(private readonly context: Context) {}

  /** Sends out all that a sandbox owns, claims it and frees its memory. Returns how many pages went. */
  async all(job: WindowJob): Promise<number> {
    const { sandbox, window, span } = job;
    const child = span.child('pageout');
    const before = pagesOf(sandbox);
    const spent = { cpuMs: 0 };
    await this.context.turns.pageOut(claimantOf(job), async (turn) => {
      child.addEvent('turn');
      const from = performance.now();
      const looks = await this.passes(job, turn, spent);
      const out = pagesOf(sandbox).out - before.out;
      if (window.open) span.event('paged_out', { [ATTRIBUTES.pages]: Math.max(0, out) });
      // Still in its turn: while others do not write, the device soon has no write in flight.
      window.settled = pagesOf(sandbox).out === 0 || (await this.settle(job, turn, looks, spent));
      sandbox.lastPageoutMs = (sandbox.lastPageoutMs ?? 0) + performance.now() - from;
    });
    const after = pagesOf(sandbox);
    const pages = Math.max(0, after.out - before.out);
    child.setAttributes({
      [ATTRIBUTES.pages]: pages,
      [ATTRIBUTES.bytesIn]: pages * PAGE,
      [ATTRIBUTES.pagesLeft]: after.owned,
      [ATTRIBUTES.cpuMs]: spent.cpuMs,
    });
    child.end();
    if (after.owned > 0) {
      const reason = window.open ? 'kept' : (window.reason as string);
      this.context.metrics.pageoutIncomplete(reason, after.owned);
    }
    return pages;
  }

  /** Settles what went out before, at its turn, when it could not be yet. */
  async settleLate(job: WindowJob): Promise<void> {
    await this.context.turns.pageOut(claimantOf(job), async (turn) => {
      const looks = lookFirst(this.context, job.sandbox);
      job.window.settled = await this.settle(job, turn, looks, { cpuMs: 0 });
    });
  }

  /** Over what the kernel kept as well, for as long as that becomes less. Returns what was seen last. */
  private async passes(job: WindowJob, turn: Turn, spent: { cpuMs: number }): Promise<Looks> {
    const { sandbox, window } = job;
    const { retries } = this.context.policies.of(sandbox).pageout;
    let looks: Looks = new Map();
    let kept = pagesOf(sandbox).owned;
    for (let pass = 0; pass <= retries && window.open; pass++) {
      await this.once(job, turn, spent);
      looks = lookFirst(this.context, sandbox);
      const { owned } = pagesOf(sandbox);
      if (owned === 0 || owned >= kept) break;
      kept = owned;
    }
    return looks;
  }

  private async once(job: WindowJob, turn: Turn, spent: { cpuMs: number }): Promise<void> {
    const { policies, pager } = this.context;
    const { sequence } = await pager.request('sequence', {});
    for (const member of membersOf(job.sandbox)) {
      if (!job.window.open) return;
      const ranges = member.goingOut(policies.of(job.sandbox).pageout.hotPhases);
      member.leaving(ranges, sequence);
      const { cpuMs } = await pageOut(member.pidfd, ranges, this.advice(job, turn));
      job.window.worked();
      spent.cpuMs += cpuMs;
    }
  }

  private advice({ sandbox, window }: WindowJob, turn: Turn): AdviceOptions {
    const vectorBytes = this.context.policies.of(sandbox).pageout.vectorKiB * 1024;
    return { vectorBytes, cancelled: () => !window.open, turn };
  }

  /**
   * Once what went out is written: claims it, and frees its memory. In this order, for some pages go to another slot
   * when they are freed: what they leave behind is then a duplicate, and not 4 KiB that nobody claims. False when the
   * device never was idle.
   */
  private async settle(job: WindowJob, turn: Turn, first: Looks, spent: { cpuMs: number }): Promise<boolean> {
    const { sandbox, window, span } = job;
    if (!(await settled(this.context.info.device, window.signal))) return false;
    const left = await claimSettled(this.context, sandbox, first, window.signal);
    if (!window.open) return true;
    span.event('claimed', { [ATTRIBUTES.pagesLeft]: left });
    await this.release(job, turn, spent);
    return true;
  }

  private async release(job: WindowJob, turn: Turn, spent: { cpuMs: number }): Promise<void> {
    for (const member of membersOf(job.sandbox)) {
      const cached = await member.cachedPages(this.context.pager, this.context.info.tier);
      const { pages, cpuMs } = await releaseCached(member, rangesOfPages(cached), this.advice(job, turn));
      job.window.worked();
      member.released(cached.slice(0, pages));
      spent.cpuMs += cpuMs;
    }
  }
}

/** Those there are now: more may come and go while they are worked on. */
const membersOf = ({ members }: Sandbox) => [...members.values()];
