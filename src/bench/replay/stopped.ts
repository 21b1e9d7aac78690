import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../../errors.js';
import { taskStat } from '../processes.js';

const STOP_TIMEOUT_MS = 5000;
const POLL_MS = 2;

/** States of proc(5) in which a thread runs no code: stopped, traced, ended. */
const AT_REST = 'TtZX';

/** States of a process's threads, a letter each; empty when it is gone. */
function states(pid: number): string {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const stats = threads.map((thread) => taskStat(`/proc/${pid}/task/${thread}/stat`));
    // Threads come and go: a list that was not whole says nothing.
    return stats.includes(null) ? '' : stats.map((stat) => stat!.fields[0]).join('');
  } catch {
    return '';
  }
}

const atRest = (pid: number): boolean => [...states(pid)].every((state) => AT_REST.includes(state));

function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/**
 * Does `work` while none of the processes that `list` names runs, and lets them go on afterwards; those that stood
 * still before stay so. `list` is asked until it names no new one, since a process may fork until it is stopped.
 * AZ_WORKLOAD_FAILED when one does not stop within 5 s.
 */
export async function whileStopped<T>(list: () => readonly number[], work: () => Promise<T>): Promise<T> {
  const stopped: number[] = [];
  const seen = new Set<number>();
  const deadline = Date.now() + STOP_TIMEOUT_MS;
  try {
    for (;;) {
      const fresh = list().filter((pid) => !seen.has(pid));
      for (const pid of fresh) {
        seen.add(pid);
        if (states(pid).startsWith('T')) continue;
        stopped.push(pid);
        signal(pid, 'SIGSTOP');
      }
      if (fresh.length === 0 && stopped.every(atRest)) return await work();
      if (Date.now() > deadline) throw late(stopped.filter((pid) => !atRest(pid)));
      await sleep(POLL_MS);
    }
  } finally {
    for (const pid of stopped) signal(pid, 'SIGCONT');
  }
}

const late = (pids: readonly number[]): AgentZipError =>
  new AgentZipError('AZ_WORKLOAD_FAILED', {
    reason: `${pids.join(', ')} did not stop within ${STOP_TIMEOUT_MS / 1000} s of SIGSTOP`,
    log: '/proc/PID/stack of those processes',
  });
