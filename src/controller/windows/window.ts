import { monotonicMs } from '../../schedule/clock.js';
import type { HostEvent } from '../api.js';
import type { EndReason } from '../phases.js';

/** Longest time a window works. A host that never reports the end of a wait must not keep the pager busy for ever. */
export const MAX_WINDOW_MS = 15 * 60_000;

/** One waiting window: from the request to the model until its first token. It ends once, for one reason. */
export class Window {
  readonly openedAt = Date.now();
  /** The same, and its end, on the host's monotonic clock, ms. */
  readonly openedAtMs = monotonicMs();
  endedAtMs = Infinity;
  /** When the last system call or refine job for it ended, on that clock. */
  private workedUntilMs = 0;
  private readonly controller = new AbortController();
  private readonly timer: NodeJS.Timeout;
  private endedAt: number | null = null;
  reason: EndReason | null = null;
  /** What went out in it is written, and its memory freed. */
  settled = false;

  /** `predictedMs`: how long it will probably last; null: not known. */
  constructor(
    readonly event: HostEvent,
    readonly predictedMs: number | null = null,
  ) {
    this.timer = setTimeout(() => this.end('budget'), MAX_WINDOW_MS);
    this.timer.unref();
  }

  /** Aborts when the window ends. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  get open(): boolean {
    return this.reason === null;
  }

  /** When it will probably end, Unix ms; Infinity: not known. */
  get deadline(): number {
    return this.predictedMs === null ? Infinity : this.openedAt + this.predictedMs;
  }

  /** Work for it, which may have begun before its end, has ended. */
  worked(atMs = monotonicMs()): void {
    this.workedUntilMs = Math.max(this.workedUntilMs, atMs);
  }

  /** From its end until nothing worked for it any more, ms. */
  get stopMs(): number {
    return Math.max(0, this.workedUntilMs - this.endedAtMs);
  }

  get durationMs(): number {
    return (this.endedAt ?? Date.now()) - this.openedAt;
  }

  /** The first reason counts; later ones change nothing. Whoever works for the window stops within one vector. */
  end(reason: EndReason): void {
    if (this.reason !== null) return;
    this.reason = reason;
    this.endedAt = Date.now();
    this.endedAtMs = monotonicMs();
    clearTimeout(this.timer);
    this.controller.abort();
  }
}

/** Waits so long, or until the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
