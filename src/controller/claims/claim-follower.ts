import { claimPass } from './claims.js';
import type { Context } from '../context.js';
import { freeGarbage } from './garbage.js';
import type { PageOut } from '../windows/page-out.js';
import { pause } from '../windows/window.js';
import { pagesOf, type WindowJob } from '../windows/window-job.js';

/** Time between claim passes while pages are still to be claimed, and the longest of short waits once none are. */
const CLAIM_MS = 250;
const CLAIM_IDLE_MS = 2_000;
/**
 * Pages that go on changing are claimed after this part of the wait so far, no sooner: what an idle guest touches comes and goes all
 * the time. Nor is a sandbox that rests looked at more often than that.
 */
const OF_WAIT = 1 / 8;
/** More pages than an idle process keeps using itself: worth another try of sending them out. */
const STRAY_PAGES = 64;

/** Something that is due at once, then after twice as long each time. */
class EverLater {
  private at = 0;
  private pauseMs = CLAIM_MS;

  get isDue(): boolean {
    return performance.now() >= this.at;
  }

  /** It is done now. */
  putOff(): void {
    this.at = performance.now() + this.pauseMs;
    this.pauseMs *= 2;
  }
}

/** What is left to do in a window once its pages were sent out, until it ends. */
export class ClaimFollower {
  private wait = CLAIM_MS;
  /** Pages left by the last claim pass; -1: there was none since more went out. */
  private before = -1;
  private readonly strays = new EverLater();
  /** A look everywhere; else it is looked only where pages were, for of a machine the rest is large and hardly changes. */
  private readonly everywhere = new EverLater();
  /** Freeing what is garbage by then: more of it comes of what goes out again. */
  private readonly garbage = new EverLater();
  private takeovers: number;

  constructor(
    private readonly context: Context,
    private readonly pageOut: PageOut,
    private readonly job: WindowJob,
  ) {
    this.takeovers = context.pager.takeovers;
  }

  /**
   * Claims what went out, until all of it is claimed; then it looks now and then what has become of it. What the kernel kept, the
   * sandbox touched meanwhile, or the release left mapped because its write was late, is sent out `again` when nobody else has
   * anything to send out: at once, then after twice as long each time, for a sandbox may go on touching it.
   */
  async follow(again: () => Promise<void>): Promise<void> {
    const { window, sandbox } = this.job;
    while (window.open) {
      if (this.takeovers !== this.context.pager.takeovers) {
        this.takeovers = this.context.pager.takeovers;
        this.startOver();
      }
      if (!window.settled) await this.pageOut.settleLate(this.job);
      if (!(await this.claim())) return window.end('exit');
      if (this.garbage.isDue) {
        this.garbage.putOff();
        await this.freeGarbage(again);
      }
      const due = pagesOf(sandbox).owned > STRAY_PAGES && this.strays.isDue;
      if (window.open && due && this.context.turns.idle) {
        this.strays.putOff();
        await again();
        this.startOver();
      }
      await pause(this.wait, window.signal);
    }
  }

  private async freeGarbage(again: () => Promise<void>): Promise<void> {
    const { sandbox, window } = this.job;
    const { turns } = this.context;
    const isDone = await freeGarbage(this.context, sandbox, window.signal);
    // Many pages are in use; few are what others have looked at, as `ps` does at arguments, and would stay for ever.
    if (isDone || !window.open || !turns.idle || pagesOf(sandbox).owned > STRAY_PAGES) return;
    await again();
    this.startOver();
    await freeGarbage(this.context, sandbox, window.signal);
  }

  private pass(): Promise<number> {
    const { sandbox, window } = this.job;
    const everywhere = this.everywhere.isDue;
    if (everywhere) this.everywhere.putOff();
    return claimPass(this.context, sandbox, window.signal, everywhere);
  }

  private startOver(): void {
    [this.before, this.wait] = [-1, CLAIM_MS];
  }

  /** False: the sandbox has ended. */
  private async claim(): Promise<boolean> {
    const { sandbox, window } = this.job;
    if (!this.context.registry.refresh(sandbox)) return false;
    const left = await this.pass();
    if (left < 0) return false;
    const part = window.durationMs * OF_WAIT;
    // What a pass could not claim the next seldom can, unless more has gone out.
    this.wait =
      left > 0 && left !== this.before
        ? Math.min(Math.max(CLAIM_MS, part), CLAIM_IDLE_MS)
        : Math.min(2 * this.wait, Math.max(CLAIM_IDLE_MS, part));
    this.before = left;
    return true;
  }
}
