import type { Policy } from '../../policy/policy.js';
import type { SkipReason } from '../api.js';

/** After so many waits in a row that were left alone cost does not count once, so that one that has fallen is learnt. */
export const MOST_SKIPS = 8;

/** What is known of a wait that begins. */
export interface Prospect {
  /** Said by the host, which knows best. */
  expectedMs: number | undefined;
  /** What the shorter quarter of such waits lasts, and what a window costs; null: not known. */
  lowMs: number | null;
  costMs: number | null;
  /** How long pages stay out after it, while the model streams, at least. */
  streamMs: number;
  /** Waits left alone since the last window. */
  skippedInRow: number;
}

/** Waits shorter than this are left alone, ms. */
export const leastWindowMs = (
  { pageout, pressure }: Pick<Policy, 'pageout' | 'pressure'>,
  memoryShort: boolean,
): number => (memoryShort ? Math.min(pressure.minWindowMs, pageout.minWindowMs) : pageout.minWindowMs);

/**
 * Why a wait is left alone; null: it is used. `memoryShort`: the host is short of memory, see HostMemory. Then shorter
 * waits are used too, and whatever they cost: pages that go out keep the host from reclaiming others.
 */
export function skipReason(
  { expectedMs, lowMs, costMs, streamMs, skippedInRow }: Prospect,
  policy: Pick<Policy, 'mode' | 'pageout' | 'pressure'>,
  memoryShort: boolean,
): SkipReason | null {
  if (policy.mode === 'pressure' && !memoryShort) return 'memory_suffices';
  const leastMs = leastWindowMs(policy, memoryShort);
  if (expectedMs !== undefined) return expectedMs < leastMs ? 'expected_short' : null;
  if (lowMs === null) return null;
  if (lowMs < leastMs) return 'predicted_short';
  if (memoryShort || costMs === null || skippedInRow >= MOST_SKIPS) return null;
  return lowMs + streamMs < costMs ? 'too_dear' : null;
}
