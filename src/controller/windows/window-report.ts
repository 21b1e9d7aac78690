import { explain } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import { ATTRIBUTES } from '../../otel/names.js';
import { sizeAttributes } from '../../otel/window.js';
import type { RefineResult } from '../../pager/protocol.js';
import { monotonicMs, unixMs } from '../../schedule/clock.js';
import type { WindowSummary } from '../api.js';
import type { Context } from '../context.js';
import type { Restored } from '../prefetch/put-back.js';
import type { WindowJob } from './window-job.js';

/** Tells of windows: in their spans, in the metrics, and to the templates whose pages they compressed. */
export class WindowReport {
  constructor(private readonly context: Context) {}

  /** A window has opened; `skipped` waits before it did not. */
  opened({ sandbox, window, span }: WindowJob, skipped: number): void {
    const { expectedMs, model } = window.event;
    const expected = { expectedMs: expectedMs ?? null, predictedMs: window.predictedMs };
    this.context.events.tell('windowOpened', { sandbox: sandbox.id, ...expected });
    span.event(
      'request',
      {
        ...(expectedMs !== undefined && { [ATTRIBUTES.expectedMs]: expectedMs }),
        ...(window.predictedMs !== null && { [ATTRIBUTES.predictedMs]: window.predictedMs }),
        ...(model !== undefined && { [ATTRIBUTES.model]: model }),
        ...(skipped > 0 && { [ATTRIBUTES.skippedBefore]: skipped }),
      },
      unixMs(window.openedAtMs),
    );
  }

  /** A step of it went wrong. */
  failed({ span }: WindowJob, error: unknown): void {
    span.event('failed', { [ATTRIBUTES.reason]: explain(error) });
  }

  /** What refinement did in it: a span from its first page to its last. */
  refined(job: WindowJob, result: RefineResult): void {
    const { span, window } = job;
    const { startedAtMs, refinedAtMs, endedAtMs } = result.times;
    if (endedAtMs !== null) window.worked(endedAtMs);
    const until = endedAtMs ?? Math.min(window.endedAtMs, monotonicMs());
    const child = span.child('refine', {}, unixMs(startedAtMs ?? until));
    child.setAttributes({
      ...sizeAttributes(result.pages, result.bytesIn, result.bytesOut),
      [ATTRIBUTES.cpuMs]: result.cpuMs,
      [ATTRIBUTES.pagesLeft]: result.remaining,
    });
    child.end(unixMs(until));
    if (refinedAtMs !== null && result.remaining === 0 && refinedAtMs <= window.endedAtMs)
      span.event('refined', {}, unixMs(refinedAtMs));
    this.noteCompression(job, result);
  }

  /** It is over, and nothing works for it any more. */
  ended({ sandbox, window, span }: WindowJob, summary: WindowSummary): void {
    const { metrics } = this.context;
    const { stopMs } = window;
    const at = unixMs(window.endedAtMs);
    metrics.windowEnded(summary.reason, summary.durationMs);
    metrics.windowStopped(summary.reason, stopMs);
    span.event(summary.reason, {}, at);
    const sizes = sizeAttributes(summary.pagedOutPages, summary.bytesIn, summary.bytesOut);
    const { expectedMs } = window.event;
    span.end(
      summary.reason,
      {
        ...sizes,
        [ATTRIBUTES.stopMs]: stopMs,
        ...(expectedMs !== undefined && { [ATTRIBUTES.expectedMs]: expectedMs }),
        ...(window.predictedMs !== null && { [ATTRIBUTES.predictedMs]: window.predictedMs }),
      },
      at,
    );
    this.context.events.tell('windowEnded', { sandbox: sandbox.id, window: summary });
  }

  /** What was put back after it; `accuracy`: how much of what was put back before was used. */
  static restored({ pages, left, cpuMs }: Restored, accuracy: number | null) {
    return {
      [ATTRIBUTES.pages]: pages,
      [ATTRIBUTES.pagesLeft]: left,
      [ATTRIBUTES.bytesIn]: pages * PAGE,
      [ATTRIBUTES.cpuMs]: cpuMs,
      ...(accuracy !== null && { [ATTRIBUTES.accuracy]: accuracy }),
    };
  }

  private noteCompression({ sandbox, span }: WindowJob, result: RefineResult): void {
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
}
