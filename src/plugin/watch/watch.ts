import { setTimeout as sleep } from 'node:timers/promises';
import type { Status } from '../../controller/api.js';
import { sampleOf, type Look, type Sample } from './sample.js';

/** Asking costs the service a look at page tables: of its time at most a tenth goes to one who watches. */
const SHARE = 10;

/** What a look came to. */
export type Sight = { sample: Sample; problem: null } | { sample: null; problem: Error };

export interface WatchOptions {
  /** Where a status comes from; it may throw. */
  look: () => Promise<Status>;
  intervalMs: number;
  /** Ends the watch. */
  signal: AbortSignal;
}

/** Looks again and again, and goes on when a look fails: the service may be started (again) at any time. */
export async function* watch({ look, intervalMs, signal }: WatchOptions): AsyncGenerator<Sight> {
  let before: Look | undefined;
  while (!signal.aborted) {
    const from = performance.now();
    let sight: Sight;
    try {
      const now = { status: await look(), at: Date.now() };
      // Counters of another process say nothing about these.
      const comparable = before?.status.pid === now.status.pid ? before : undefined;
      sight = { sample: sampleOf(now, comparable), problem: null };
      before = now;
    } catch (error) {
      sight = { sample: null, problem: error instanceof Error ? error : new Error(String(error)) };
    }
    if (signal.aborted) return;
    const tookMs = performance.now() - from;
    yield sight;
    await sleep(Math.max(intervalMs - tookMs, tookMs * SHARE), undefined, { signal }).catch(() => {});
  }
}
