import { readdirSync } from 'node:fs';
import { SystemError } from '../../native/errno.js';
import { schedule } from '../../native/process.js';
import { isBusy, type UblkControl } from './control.js';
import type { UblkQueue } from './queue.js';

/** The end of a process that has much memory, or swap to page in, takes its time. */
const PATIENCE_MS = 60_000;
const PAUSE_MS = 1;
const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Takes a device from a server that died. The driver gives it away when that process has let go of all its files, the
 * last of its threads with them: they get the processor at once, for a fault waits. Requests that it had not answered come
 * again. Blocks this thread.
 */
export function takeDevice(control: UblkControl, queue: UblkQueue, id: number, deadPid: number): void {
  for (let waited = 0; ; waited += PAUSE_MS) {
    const error = control.attempt('START_USER_RECOVERY', id);
    if (error === 0) break;
    if (!isBusy(error) || waited >= PATIENCE_MS) throw new SystemError('START_USER_RECOVERY', error, `${id}`);
    hurry(deadPid);
    Atomics.wait(pause, 0, 0, PAUSE_MS);
  }
  queue.open(id);
  control.run('END_USER_RECOVERY', id, { data: process.pid });
}

/** Threads that run only when nobody else wants to (refine workers) also have to run to end. */
function hurry(pid: number): void {
  try {
    for (const tid of readdirSync(`/proc/${pid}/task`)) schedule(Number(tid), 'realtime');
  } catch {
    // It has ended meanwhile.
  }
}
