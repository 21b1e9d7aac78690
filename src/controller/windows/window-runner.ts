import { setTimeout as sleep } from 'node:timers/promises';
import { WindowSpan } from '../../otel/window.js';
import type { RefineResult } from '../../pager/protocol.js';
import type { Policy } from '../../policy/policy.js';
import { unixMs } from '../../schedule/clock.js';
import type { HostEvent, WindowSummary } from '../api.js';
import { ClaimFollower } from '../claims/claim-follower.js';
import type { Context } from '../context.js';
import { BringDown } from './bring-down.js';
import { PageOut } from './page-out.js';
import type { Restorer } from '../prefetch/restorer.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import type { WindowJob } from './window-job.js';
import { WindowPrefetch } from '../prefetch/window-prefetch.js';
import { SharedPageOut } from './shared-page-out.js';
import { WriteBack } from './write-back.js';
import { WindowReport } from './window-report.js';

/** An ended process has let go of its memory after this time. */
const TEARDOWN_MS = 200;
/** So often it is looked whether all that descends from an ended sandbox is gone: what it forked last may still be ending. */
const TEARDOWN_LOOKS = 5;
/** What a tool waits for a page that was not put back, ms. */
const DEMAND_MS = 0.05;

/** Does what is to be done in a waiting window: page out, claim, let the pager refine; then prefetch. */
export class WindowRunner {
  private readonly pageOut: PageOut;
  private readonly shared: SharedPageOut;
  private readonly writeBack: WriteBack;
  private readonly bringDown: BringDown;
  private readonly report: WindowReport;
  private readonly prefetch: WindowPrefetch;

  constructor(
    private readonly context: Context,
    restorer: Restorer,
  ) {
    this.pageOut = new PageOut(context);
    this.shared = new SharedPageOut(context);
    this.writeBack = new WriteBack(context);
    this.bringDown = new BringDown(context, this.pageOut);
    this.report = new WindowReport(context);
    this.prefetch = new WindowPrefetch(context, restorer, this.report);
  }

  /** Opens a window that will last for `predictedMs`, null: not known. Work goes on behind it and ends with it. */
  open(sandbox: Sandbox, event: HostEvent, predictedMs: number | null): void {
    const window = sandbox.openWindow(event, predictedMs);
    const { tracer } = this.context.telemetry;
    const template = sandbox.spec.template ?? null;
    const opened = unixMs(window.openedAtMs);
    const span = WindowSpan.start(tracer, sandbox.id, template, event.traceparent, opened);
    const job = { sandbox, window, span };
    this.report.opened(job, sandbox.skippedInRow);
    sandbox.skippedInRow = 0;
    sandbox.work.run(() => this.run(job)).catch((error: unknown) => this.report.failed(job, error));
  }

  /** Makes the pager forget whose slots a sandbox's were. */
  async forget(sandbox: Sandbox): Promise<void> {
    this.context.owners.forget(sandbox.tag);
    this.writeBack.forget(sandbox);
    if (!sandbox.knownToPager) return;
    sandbox.knownToPager = false;
    await this.context.pager.request('forget', { owner: sandbox.id, ended: await this.hasEnded(sandbox) });
  }

  /** True: nothing that descends from the sandbox lives, and its memory is torn down. False: something does, or may. */
  private async hasEnded(sandbox: Sandbox): Promise<boolean> {
    const { knowsLineage } = this.context;
    for (let look = 0; look < TEARDOWN_LOOKS && sandbox.members.size === 0; look++) {
      // A process that ends is reported before its memory is torn down.
      await sleep(TEARDOWN_MS);
      if (sandbox.members.size === 0 && knowsLineage(sandbox)) return true;
    }
    return false;
  }

  /** Once no window is open any more, or there is another device. */
  stop(): void {
    this.writeBack.close();
  }

  private async run(job: WindowJob): Promise<void> {
    const { sandbox, window } = job;
    let refining: Promise<RefineResult | null> = Promise.resolve(null);
    let pagedOut = 0;
    try {
      this.endToolPhase(sandbox);
      if (sandbox.members.size === 0) window.end('exit');
      if (window.open) await this.context.templates.before(sandbox, window);
      if (window.open) {
        sandbox.knownToPager = true;
        const opening = this.openAtPager(job);
        refining = this.closeAtEnd(job);
        await opening;
        pagedOut = await this.pageOut.all(job);
        pagedOut += await this.shared.all(job).catch((error: unknown) => {
          this.report.failed(job, error);
          return 0;
        });
        await this.down(job);
        const again = async (): Promise<void> => {
          // Where nothing went out at first, nothing would.
          if (pagedOut === 0) return;
          pagedOut += await this.pageOut.all(job);
          await this.bringDown.all(job);
        };
        await new ClaimFollower(this.context, this.pageOut, job).follow(again);
      }
    } catch (error) {
      this.report.failed(job, error);
      window.end('shutdown');
    }
    await this.close(job, refining, pagedOut);
  }

  /** From what stands before the pager's device on to it. */
  private async down(job: WindowJob): Promise<void> {
    try {
      await this.writeBack.all(job);
      await this.bringDown.all(job);
    } catch (error) {
      this.report.failed(job, error);
    }
  }

  /** What the last tool phase used is learnt from how the page tables have changed since the last window. */
  private endToolPhase(sandbox: Sandbox): void {
    const { registry, pollProbes, predictor, predictions } = this.context;
    pollProbes();
    registry.refresh(sandbox);
    for (const member of sandbox.members.values()) member.renew(this.context.info.tier);
    const { demand } = predictor.conclude(sandbox);
    const { lastPageoutMs, lastPrefetchMs } = sandbox;
    if (lastPageoutMs === null) return;
    sandbox.lastPageoutMs = null;
    predictions.paid(sandbox, lastPageoutMs + lastPrefetchMs + demand * DEMAND_MS);
  }

  private async openAtPager({ sandbox, window }: WindowJob): Promise<void> {
    const endsInMs = window.predictedMs ?? undefined;
    const { policies, pager } = this.context;
    // The level is the pager's: it was started with it.
    const encoding: Partial<Policy['encoding']> = { ...policies.of(sandbox).encoding };
    delete encoding.level;
    await pager.request('openWindow', { owner: sandbox.id, endsInMs, encoding });
  }

  /**
   * Tells the pager of the window's end at once, whatever else of it is still in hand. Resolves to what refinement did;
   * null: it can not be told.
   */
  private closeAtEnd(job: WindowJob): Promise<RefineResult | null> {
    const { signal } = job.window;
    return new Promise((resolve) => {
      const failed = (error: unknown): void => {
        this.report.failed(job, error);
        resolve(null);
      };
      const close = (): void => {
        this.context.pager.request('closeWindow', { owner: job.sandbox.id }).then(resolve, failed);
      };
      if (signal.aborted) close();
      else signal.addEventListener('abort', close, { once: true });
    });
  }

  private async close(
    job: WindowJob,
    refining: Promise<RefineResult | null>,
    pagedOutPages: number,
  ): Promise<void> {
    const { sandbox, window } = job;
    // The tool may start at any moment now: the prefetch does not wait for the pager's figures.
    const prefetching = this.prefetch.after(job);
    const refined = await refining;
    if (refined !== null) this.report.refined(job, refined);
    const summary: WindowSummary = {
      openedAt: window.openedAt,
      reason: window.reason ?? 'shutdown',
      durationMs: window.durationMs,
      pagedOutPages,
      refinedPages: refined?.pages ?? 0,
      bytesIn: refined?.bytesIn ?? 0,
      bytesOut: refined?.bytesOut ?? 0,
      prefetchedPages: 0,
    };
    this.report.ended(job, summary);
    // The prefetch may wait until the response ends: the window is over now.
    sandbox.lastWindow = summary;
    const prefetchedPages = await prefetching;
    if (sandbox.lastWindow === summary) sandbox.lastWindow = { ...summary, prefetchedPages };
    if (summary.reason === 'exit') await this.forget(sandbox);
  }
}
