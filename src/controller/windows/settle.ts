import { inflight } from '../../memory/swap.js';
import { pause } from './window.js';

/** A write that the kernel has decided on reaches the device's queue within this time. */
const SETTLE_MS = 20;
const POLL_MS = 2;
/** A device that is never idle for so long is asked again in the next pass. */
const PATIENCE_MS = 500;

/**
 * Waits until the writes that were under way have reached the pager: at least 20 ms, and once no write in flight.
 * A page's entry names its slot before its write is submitted, so slots seen earlier than that prove nothing.
 * False when the device never was idle, or the signal came.
 */
export async function settled(
  device: string,
  signal: AbortSignal,
  writesInFlight: (device: string) => number = (path) => inflight(path).writes,
): Promise<boolean> {
  await pause(SETTLE_MS, signal);
  for (let waited = 0; waited < PATIENCE_MS && !signal.aborted; waited += POLL_MS) {
    if (writesInFlight(device) === 0) return true;
    await pause(POLL_MS, signal);
  }
  return false;
}
