import { swapoff } from '../../native/system.js';
import { NbdControl, nbdDevice, nbdDevicesOf } from './control.js';
import { isSwap } from '../swap/swap-area.js';

/**
 * Takes away the devices that pagers of a runtime directory left behind. Requests that wait for a server are failed first, so
 * that swap can be turned off. Returns what was removed.
 */
export async function clearNbdRemains(runtimeDir: string): Promise<string[]> {
  const indexes = nbdDevicesOf(runtimeDir);
  if (indexes.length === 0) return [];
  const removed: string[] = [];
  const control = new NbdControl();
  try {
    for (const index of indexes) {
      const device = nbdDevice(index);
      control.disconnect(index);
      if (isSwap(device)) {
        await swapoff(device);
        removed.push(`swap ${device}`);
      }
      removed.push(`device ${device}`);
    }
  } finally {
    control.close();
  }
  return removed;
}
