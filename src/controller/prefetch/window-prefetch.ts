import type { Context } from '../context.js';
import type { Restorer } from './restorer.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { pause } from '../windows/window.js';
import type { WindowJob } from '../windows/window-job.js';
import { WindowReport } from '../windows/window-report.js';

/** A prefetch begins so long, and so many times its last duration, before the stream is expected to end. */
const LEAD_MS = 150;
const LEAD_FACTOR = 2;
/** The longest a timer can be set to. */
const NEVER_MS = 2 ** 31 - 1;

/** Puts back, after a window, what the next tool will probably use, when it is time. */
export class WindowPrefetch {
  constructor(
    private readonly context: Context,
    private readonly restorer: Restorer,
    private readonly report: WindowReport,
  ) {}

  /** Returns the pages put back. */
  async after(job: WindowJob): Promise<number> {
    const { sandbox, window, span } = job;
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
      const restored = await this.restorer.prefetch(sandbox);
      child.setAttributes(WindowReport.restored(restored, sandbox.lastAccuracy));
      return restored.pages;
    } catch (error) {
      this.report.failed(job, error);
      return 0;
    } finally {
      child.end();
    }
  }

  /** How long the pages may stay out while the model streams: they are wanted when it ends. */
  private lullMs(sandbox: Sandbox): number {
    const { policies, predictions } = this.context;
    const { start } = policies.of(sandbox).prefetch;
    if (start === 'first_token') return 0;
    if (start === 'response_end') return NEVER_MS;
    return predictions.streamAtLeast(sandbox) - LEAD_MS - LEAD_FACTOR * sandbox.lastPrefetchMs;
  }
}
