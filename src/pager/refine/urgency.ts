import { schedule, gettid } from '../../native/process.js';

/**
 * How much a refine worker may take of a processor that others want too, by how full staging is. A page that waits costs
 * ten times its compressed size, so a host that is never idle must not leave all of them waiting.
 */
const STEPS = [
  { from: 1 / 8, share: 0 },
  { from: 1 / 64, share: 10 },
  { from: 0, share: 'idle' },
] as const;
export type Share = (typeof STEPS)[number]['share'];

/** `filled`: staged bytes over the bytes of staging there are. */
export const shareAt = (filled: number): Share => STEPS.find(({ from }) => filled >= from)!.share;

/** Sets the calling thread's share when another one has become due. */
export class Urgency {
  private share: Share | undefined;

  /** Returns the share. */
  update(filled: number): Share {
    const share = shareAt(filled);
    if (share === this.share) return share;
    this.share = share;
    schedule(gettid(), share);
    return share;
  }
}
