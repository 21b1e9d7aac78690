import { setTimeout as sleep } from 'node:timers/promises';
import { swapAreas } from '../memory/swap.js';
import { ProgressMeter, type Progress } from './progress.js';

const POLL_MS = 200;

/** Bytes of a swap device that are in use, as the kernel counts them; 0 once it is off. */
const usedOn = (device: string): number => swapAreas().find(({ path }) => path === device)?.usedBytes ?? 0;

/** Tells how much of a swap device has come back, until `signal` aborts. Bytes. */
export async function followDrain(
  device: string,
  tell: (progress: Progress) => void,
  signal: AbortSignal,
  used: (device: string) => number = usedOn,
): Promise<void> {
  const meter = new ProgressMeter();
  const total = used(device);
  while (!signal.aborted) {
    const left = used(device);
    // What goes out meanwhile has to come back too.
    tell(meter.note(performance.now(), Math.max(0, total - left), Math.max(total, left)));
    await sleep(POLL_MS, undefined, { signal }).catch(() => {});
  }
}
