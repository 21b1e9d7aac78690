import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { swapoff } from '../../native/system.js';
import { isSwap } from '../swap/swap-area.js';
import { UblkControl } from './control.js';
import type { RefuserInput } from './refuser.js';
import { blockDevice, devicesOf, removeDevice } from './ublk.js';

/**
 * Takes away the devices that pagers of a runtime directory left behind. Requests that wait for them can not be failed
 * while swap is on: the driver would take the device away, and nobody could turn swap off any more. So somebody serves it
 * once more, and refuses all. Returns what was removed.
 */
export async function clearUblkRemains(runtimeDir: string): Promise<string[]> {
  if (!existsSync('/dev/ublk-control')) return [];
  const removed: string[] = [];
  const control = new UblkControl();
  try {
    for (const { id, serverPid } of devicesOf(control, runtimeDir)) {
      const device = blockDevice(id);
      if (isSwap(device)) {
        await refuseAll({ id, deadPid: serverPid });
        await swapoff(device);
        removed.push(`swap ${device}`);
      }
      removeDevice(control, id);
      removed.push(`device ${device}`);
    }
  } finally {
    control.close();
  }
  return removed;
}

/** Resolves when the device is served. Its thread ends when the device is stopped. */
function refuseAll(workerData: RefuserInput): Promise<void> {
  const worker = new Worker(new URL('./refuser.js', import.meta.url), { workerData });
  return new Promise((resolve, reject) => {
    worker.once('error', reject);
    worker.once('message', () => resolve());
  });
}
