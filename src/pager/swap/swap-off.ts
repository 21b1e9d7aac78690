import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { SystemError } from '../../native/errno.js';
import { exitOf, spawnProgram } from '../../native/spawn.js';
import { isSwap } from './swap-area.js';

/** A swapoff that was begun by a pager that died gives up as soon as the device answers again. */
const ATTEMPTS = 100;
const PAUSE_MS = 50;
const POLL_MS = 10;
/** Exit status of swapoff(8): there is no memory; swapoff(2) failed otherwise. */
const NO_MEMORY = 2;
const FAILED = 4;

/**
 * Pages everything on the device back in, which may take minutes; ENOMEM when it does not fit. The one who waits in the
 * kernel meanwhile is a process of its own, which ends with us: a thread of ours could not end before the device answers,
 * nor let go of our files, for which the ublk driver waits before it gives the device to the standby.
 */
export async function swapOff(device: string): Promise<void> {
  const command = ['setpriv', '--pdeathsig', 'KILL', '/sbin/swapoff', device];
  for (let attempt = 1; isSwap(device); attempt++) {
    const status = await exit(spawnProgram('/usr/bin/setpriv', command, process.env, [0, 1, 2]));
    if (status === 0) return;
    if (status === NO_MEMORY) throw new SystemError('swapoff', constants.errno.ENOMEM, device);
    // Another swapoff of it may be under way.
    if (status !== FAILED || attempt === ATTEMPTS)
      throw new Error(`swapoff ${device}: exit status ${status}`);
    await sleep(PAUSE_MS);
  }
}

async function exit(pid: number): Promise<number> {
  for (;;) {
    const status = exitOf(pid);
    if (status !== null) return status;
    await sleep(POLL_MS);
  }
}
