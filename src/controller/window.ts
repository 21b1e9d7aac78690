import type { HostEvent } from './api.js';
import type { EndReason } from './phases.js';

/** Longest time a window works. A host that never reports the end of a wait must not keep the pager busy for ever. */
export const MAX_WINDOW_MS = 15 * 60_000;

/** One waiting window: from the request to the model until its first token. It ends once, for one reason. */
export class Window {
  readonly openedAt = Date.now();
  private readonly controller = new AbortController();
  private readonly timer: NodeJS.Timeout;
  private endedAt: number | null = null;
  reason: EndReason | null = null;
  /** What went out in it is written, and its memory freed. */
  settled = false;

  constructor(readonly event: HostEvent) {
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

  get durationMs(): number {
    return (this.endedAt ?? Date.now()) - this.openedAt;
  }

  /** The first reason counts; later ones change nothing. Whoever works for the window stops within one vector. */
  end(reason: EndReason): void {
    if (this.reason !== null) return;
    this.reason = reason;
    this.endedAt = Date.now();
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
