import { setTimeout as sleep } from 'node:timers/promises';
import { explain } from '../errors.js';
import { type AdviceOptions, pageOut } from '../memory/pageout.js';
import { releaseCached } from '../memory/release.js';
import { rangesOfPages } from '../memory/restore.js';
import { PAGE } from '../native/libc.js';
import { ATTRIBUTES } from '../otel/names.js';
import { sizeAttributes, WindowSpan } from '../otel/window.js';
import type { RefineResult } from '../pager/protocol.js';
import type { HostEvent, WindowSummary } from './api.js';
import { claimPass, claimSettled, lookFirst, type Looks } from './claims.js';
import type { Context } from './context.js';
import { freeGarbage } from './garbage.js';
import type { Restorer } from './restorer.js';
import type { Sandbox } from './sandbox.js';
import { settled } from './settle.js';
import { pause, type Window } from './window.js';

/** Time between claim passes while pages are still to be claimed, and the longest once none are. */
const CLAIM_MS = 250;
const CLAIM_IDLE_MS = 2_000;
/** More pages than an idle process keeps using itself: worth another try of sending them out. */
const STRAY_PAGES = 64;
/** A prefetch begins so long, and so many times its last duration, before the stream is expected to end. */
const LEAD_MS = 150;
const LEAD_FACTOR = 2;
/** The longest a timer can be set to. */
const NEVER_MS = 2 ** 31 - 1;
/** An ended process has let go of its memory after this time. */
const TEARDOWN_MS = 200;

interface Progress {
  pagedOut: number;
  /** The pager knows of the window. */
  opened: boolean;
}

/** Does what is to be done in a waiting window: page out, claim, let the pager refine; then prefetch. */
export class WindowRunner {
  constructor(
    private readonly context: Context,
    private readonly restorer: Restorer,
  ) {}

  /** Opens a window; work goes on behind it and ends with the window. */
  open(sandbox: Sandbox, event: HostEvent): void {
    const window = sandbox.openWindow(event);
    const { tracer } = this.context.telemetry;
    const span = WindowSpan.start(tracer, sandbox.id, sandbox.spec.template ?? null, event.traceparent);
    const failed = (error: unknown): void => span.event('failed', { [ATTRIBUTES.reason]: explain(error) });
    sandbox.work.run(() => this.run(sandbox, window, span)).catch(failed);
  }

  /** Makes the pager forget whose slots a sandbox's were. */
  async forget(sandbox: Sandbox): Promise<void> {
    this.context.owners.forget(sandbox.tag);
    if (!sandbox.knownToPager) return;
    sandbox.knownToPager = false;
    let ended = sandbox.members.size === 0;
    if (ended) {
      // A process that ends is reported before its memory is torn down.
      await sleep(TEARDOWN_MS);
      ended = sandbox.members.size === 0 && this.context.knowsLineage(sandbox);
    }
    await this.context.pager.request('forget', { owner: sandbox.id, ended });
  }

  private async run(sandbox: Sandbox, window: Window, span: WindowSpan): Promise<void> {
    const progress: Progress = { pagedOut: 0, opened: false };
    try {
      this.endToolPhase(sandbox);
      if (sandbox.members.size === 0) window.end('exit');
      if (window.open) {
        sandbox.knownToPager = true;
        await this.context.pager.request('openWindow', { owner: sandbox.id });
        progress.opened = true;
        progress.pagedOut = await this.pageOutAll(sandbox, window, span);
        const again = async (): Promise<void> => {
          // Where nothing went out at first, nothing would.
          if (progress.pagedOut > 0) progress.pagedOut += await this.pageOutAll(sandbox, window, span);
        };
        await this.claimWhileOpen(sandbox, window, again);
      }
    } catch (error) {
      span.event('failed', { [ATTRIBUTES.reason]: explain(error) });
      window.end('shutdown');
    }
    await this.close(sandbox, window, span, progress);
  }

  /** What the last tool phase used is learnt from how the page tables have changed since the last window. */
  private endToolPhase(sandbox: Sandbox): void {
    const { registry, predictor, pollProbes } = this.context;
    pollProbes();
    registry.refresh(sandbox);
    for (const member of sandbox.members.values()) {
      // Claims are renewed in every window: a page may have been written again to the very slot it had.
      member.claimed.clear();
    }
    predictor.conclude(sandbox);
  }

  /** Returns how many pages went out. */
  private async pageOutAll(sandbox: Sandbox, window: Window, span: WindowSpan): Promise<number> {
    const child = span.child('pageout');
    const before = this.totals(sandbox);
    let after = before;
    let looks: Looks = new Map();
    await this.context.turns.pageOut(window.signal, async (turn) => {
      for (let pass = 0; pass <= this.context.policy.pageout.retries && window.open; pass++) {
        const kept = after.owned;
        await this.pageOutOnce(sandbox, window, turn);
        looks = lookFirst(this.context, sandbox);
        after = this.totals(sandbox);
        if (after.owned === 0 || after.owned >= kept) break;
      }
      // Still in its turn: while others do not write, the device soon has no write in flight.
      window.settled = after.out === 0 || (await this.settle(sandbox, window, turn, looks));
    });
    after = this.totals(sandbox);
    const pages = Math.max(0, after.out - before.out);
    child.setAttributes({
      [ATTRIBUTES.pages]: pages,
      [ATTRIBUTES.bytesIn]: pages * PAGE,
      [ATTRIBUTES.pagesLeft]: after.owned,
    });
    child.end();
    if (after.owned > 0) {
      this.context.metrics.pageoutIncomplete(window.open ? 'kept' : (window.reason as string), after.owned);
    }
    return pages;
  }

  private async pageOutOnce(sandbox: Sandbox, window: Window, turn: () => Promise<void>): Promise<void> {
    const { policy, pager } = this.context;
    const { sequence } = await pager.request('sequence', {});
    const advice = this.advice(window, turn);
    for (const member of [...sandbox.members.values()]) {
      if (!window.open) return;
      const ranges = member.goingOut(policy.pageout.hotPhases);
      member.leaving(ranges, sequence);
      await pageOut(member.pidfd, ranges, advice);
    }
  }

  private advice(window: Window, turn: () => Promise<void>): AdviceOptions {
    const vectorBytes = this.context.policy.pageout.vectorKiB * 1024;
    return { vectorBytes, cancelled: () => !window.open, turn };
  }

  /**
   * Once what went out is written: claims it, and frees its memory. In this order, for some pages go to another slot
   * when they are freed: what they leave behind is then a duplicate, and not 4 KiB that nobody claims. False when the
   * device never was idle.
   */
  private async settle(
    sandbox: Sandbox,
    window: Window,
    turn: () => Promise<void>,
    first: Looks,
  ): Promise<boolean> {
    if (!(await settled(this.context.info.device, window.signal))) return false;
    await claimSettled(this.context, sandbox, first, window.signal);
    if (window.open) await this.release(sandbox, window, turn);
    return true;
  }

  private async release(sandbox: Sandbox, window: Window, turn: () => Promise<void>): Promise<void> {
    const advice = this.advice(window, turn);
    for (const member of [...sandbox.members.values()]) {
      const pages = await member.cachedPages(this.context.pager);
      const released = await releaseCached(member, rangesOfPages(pages), advice);
      member.released(pages.slice(0, released));
    }
  }

  private totals(sandbox: Sandbox): { owned: number; out: number } {
    const total = { owned: 0, out: 0 };
    for (const { look } of sandbox.members.values()) {
      total.owned += look?.ownedPages ?? 0;
      total.out += look?.swappedPages ?? 0;
    }
    return total;
  }

  /**
   * Claims what went out, until all of it is claimed; then only sees whether the sandbox still lives. What the kernel
   * kept, the sandbox touched meanwhile, or the release left mapped because its write was late, is sent out `again` when
   * nobody else has anything to send out: at once, then after twice as long each time, for a sandbox may go on touching it.
   */
  private async claimWhileOpen(sandbox: Sandbox, window: Window, again: () => Promise<void>): Promise<void> {
    const { registry } = this.context;
    let wait = CLAIM_MS;
    let strays = { at: 0, pauseMs: CLAIM_MS };
    let before = -1;
    let tidied = false;
    let { takeovers } = this.context.pager;
    while (window.open) {
      if (takeovers !== this.context.pager.takeovers) {
        takeovers = this.context.pager.takeovers;
        [before, wait] = [-1, CLAIM_MS];
      }
      if (!window.settled) {
        await this.context.turns.pageOut(window.signal, async (turn) => {
          window.settled = await this.settle(sandbox, window, turn, lookFirst(this.context, sandbox));
        });
      }
      // Nothing left twice in a row: pages that others send out later wait for the next window.
      const done = before === 0 && wait > CLAIM_MS;
      const left = done ? 0 : await claimPass(this.context, sandbox, window.signal);
      if (left < 0 || (done && !registry.refresh(sandbox))) {
        window.end('exit');
        return;
      }
      if (!tidied) {
        tidied = true;
        await freeGarbage(this.context, sandbox, window.signal);
      }
      // What a pass could not claim the next seldom can, unless more has gone out.
      wait = left > 0 && left !== before ? CLAIM_MS : Math.min(2 * wait, CLAIM_IDLE_MS);
      before = left;
      const due = this.totals(sandbox).owned > STRAY_PAGES && performance.now() >= strays.at;
      if (window.open && due && this.context.turns.idle) {
        strays = { at: performance.now() + strays.pauseMs, pauseMs: 2 * strays.pauseMs };
        await again();
        [before, wait] = [-1, CLAIM_MS];
      }
      await pause(wait, window.signal);
    }
  }

  private async close(sandbox: Sandbox, window: Window, span: WindowSpan, progress: Progress): Promise<void> {
    const refining = progress.opened ? this.closeRefine(sandbox, span) : Promise.resolve(null);
    // The tool may start at any moment now: the prefetch does not wait for the pager's figures.
    const prefetching = this.prefetchAfter(sandbox, window, span);
    const refined = await refining;
    const summary: WindowSummary = {
      reason: window.reason ?? 'shutdown',
      durationMs: window.durationMs,
      pagedOutPages: progress.pagedOut,
      refinedPages: refined?.pages ?? 0,
      bytesIn: refined?.bytesIn ?? 0,
      bytesOut: refined?.bytesOut ?? 0,
      prefetchedPages: 0,
    };
    this.endSpan(span, window, summary);
    // The prefetch may wait until the response ends: the window is over now.
    sandbox.lastWindow = summary;
    const prefetchedPages = await prefetching;
    if (sandbox.lastWindow === summary) sandbox.lastWindow = { ...summary, prefetchedPages };
    if (summary.reason === 'exit') await this.forget(sandbox);
  }

  private endSpan(span: WindowSpan, window: Window, summary: WindowSummary): void {
    this.context.metrics.windowEnded(summary.reason, summary.durationMs);
    span.end(summary.reason, {
      ...sizeAttributes(summary.pagedOutPages, summary.bytesIn, summary.bytesOut),
      ...(window.event.expectedMs !== undefined && { [ATTRIBUTES.expectedMs]: window.event.expectedMs }),
    });
  }

  private async closeRefine(sandbox: Sandbox, span: WindowSpan): Promise<RefineResult | null> {
    const child = span.child('refine');
    try {
      const result = await this.context.pager.request('closeWindow', { owner: sandbox.id });
      child.setAttributes({
        ...sizeAttributes(result.pages, result.bytesIn, result.bytesOut),
        [ATTRIBUTES.cpuMs]: result.cpuMs,
        [ATTRIBUTES.pagesLeft]: result.remaining,
      });
      this.noteCompression(sandbox, span, result);
      return result;
    } catch (error) {
      span.event('failed', { [ATTRIBUTES.reason]: explain(error) });
      return null;
    } finally {
      child.end();
    }
  }

  private noteCompression(sandbox: Sandbox, span: WindowSpan, result: RefineResult): void {
    const template = this.context.templates.baseFor(sandbox);
    const drift = template?.compression.note(result);
    if (!template || !drift) return;
    const { cause, usualRatio, recentRatio } = drift;
    span.event('template.drift', {
      ...{ [ATTRIBUTES.template]: template.id, [ATTRIBUTES.reason]: cause },
      ...{ [ATTRIBUTES.ratio]: recentRatio, [ATTRIBUTES.usualRatio]: usualRatio },
    });
    this.context.metrics.drifted(template.id, cause);
  }

  private async prefetchAfter(sandbox: Sandbox, window: Window, span: WindowSpan): Promise<number> {
    if (window.reason !== 'first_token' && window.reason !== 'tool_start') return 0;
    const lullMs = sandbox.streaming ? this.lullMs(sandbox) : 0;
    if (lullMs > 0) {
      this.restorer.prepare(sandbox);
      await pause(lullMs, sandbox.lullSignal);
    }
    // The model may have been asked again without a tool in between.
    if (sandbox.window !== window) return 0;
    const child = span.child('prefetch');
    try {
      const pages = await this.restorer.prefetch(sandbox);
      child.setAttributes({ [ATTRIBUTES.pages]: pages });
      return pages;
    } catch (error) {
      span.event('failed', { [ATTRIBUTES.reason]: explain(error) });
      return 0;
    } finally {
      child.end();
    }
  }

  /** How long the pages may stay out while the model streams: they are wanted when it ends. */
  private lullMs(sandbox: Sandbox): number {
    const { policy, streams } = this.context;
    if (policy.prefetch.start === 'first_token') return 0;
    if (policy.prefetch.start === 'response_end') return NEVER_MS;
    return streams.atLeast(sandbox.domain) - LEAD_MS - LEAD_FACTOR * sandbox.lastPrefetchMs;
  }
}
