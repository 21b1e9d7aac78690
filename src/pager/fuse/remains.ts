import { readdirSync, readFileSync } from 'node:fs';
import { MNT_DETACH, swapoff, umount } from '../../native/system.js';
import { FILE_NAME } from './protocol.js';
import { isSwap } from '../swap/swap-area.js';

/** Loop devices over the file of a mount point of ours. */
function loopDevices(mountPoint: string): string[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .filter((name) => {
      try {
        // The kernel shows a path below a dead or detached mount from that mount's root.
        const file = readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').trim();
        return file === `${mountPoint}/${FILE_NAME}` || file === `/${FILE_NAME}`;
      } catch {
        return false; // not in use
      }
    })
    .map((name) => `/dev/${name}`);
}

const isMounted = (mountPoint: string): boolean =>
  readFileSync('/proc/mounts', 'utf8').includes(`agentzip ${mountPoint} fuse `);

/**
 * Takes away what a pager that died left behind: swap on a device without a server, and its mount. Only for whoever
 * holds the pager's lock. Pages that were out are lost with the pager: processes that need them get SIGBUS.
 * Returns what it removed.
 */
export async function clearFuseRemains(mountPoint: string): Promise<string[]> {
  const removed: string[] = [];
  if (!isMounted(mountPoint)) return removed;
  for (const device of loopDevices(mountPoint)) {
    if (!isSwap(device)) continue;
    await swapoff(device);
    removed.push(`swap ${device}`);
  }
  umount(mountPoint, MNT_DETACH);
  removed.push(`mount ${mountPoint}`);
  return removed;
}
