import { totalmem } from 'node:os';

const GIB = 2 ** 30;
/** Room for pages of the rest of the host: with DAMON at work they go out too. */
const SPARE_BYTES = GIB;
const DEFAULT_BYTES = 4 * GIB;

/**
 * Size of a system's swap area, whole MiB: what the sandboxes take together at their ends, `needed`, and some room.
 * Not more, as zram takes 16 bytes for every page of it, used or not.
 */
export function swapBytes(needed: number | undefined): number {
  const bytes = needed === undefined ? DEFAULT_BYTES : needed + SPARE_BYTES;
  return Math.floor(Math.min(bytes, totalmem()) / 2 ** 20) * 2 ** 20;
}
