import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Times of /proc/stat and of tasks are in ticks: USER_HZ, which is 100 wherever Linux exports it. */
export const TICKS_PER_SECOND = 100;

/** What /proc/PID/stat and /proc/PID/task/TID/stat say: see proc(5). */
export interface TaskStat {
  name: string;
  /** What follows the name: field 3 of proc(5), the state, is the first. */
  fields: string[];
}

/** Reads a `stat` file of a process or thread; null when it is gone. */
export function taskStat(path: string): TaskStat | null {
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch {
    return null;
  }
  // The name may hold spaces and parentheses; what follows its last one does not.
  const end = text.lastIndexOf(')');
  return { name: text.slice(text.indexOf('(') + 1, end), fields: text.slice(end + 2).split(' ') };
}

/** Whether a process exists and is no zombie. */
export function isAlive(pid: number): boolean {
  const stat = taskStat(`/proc/${pid}/stat`);
  return stat !== null && !/^[ZX]/.test(stat.fields[0]);
}

/** Waits until a process has ended; false when it still runs after `timeoutMs`. */
export async function ended(pid: number, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs;
  while (isAlive(pid)) {
    if (Date.now() > deadline) return false;
    await sleep(20);
  }
  return true;
}

/** Resident bytes of a process: anonymous, file and shared memory pages together; 0 when it is gone. */
export function residentBytes(pid: number): number {
  try {
    const match = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
    return match ? Number(match[1]) * 1024 : 0;
  } catch {
    return 0;
  }
}

/** Processor time of a process and of the children it has waited for, in seconds; 0 when it is gone. */
export function cpuSeconds(pid: number): number {
  const stat = taskStat(`/proc/${pid}/stat`);
  if (stat === null) return 0;
  // utime, stime, cutime, cstime
  return stat.fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
}
