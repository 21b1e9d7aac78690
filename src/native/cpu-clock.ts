import { libc } from './libc.js';

/** The CPU-time clock of a process by its pid (include/linux/posix-timers.h): scheduler time of all its threads. */
const CPUCLOCK_SCHED = 2;
const NS_PER_S = 1e9;

const gettime_ = libc.func('int clock_gettime(int clock, void *time)');
const time = new BigInt64Array(2);

/** CPU time of a process so far in ns, of ended threads too; one system call. Null when there is no such process. */
export function processCpuNs(pid: number): number | null {
  if (gettime_((~pid << 3) | CPUCLOCK_SCHED, time) !== 0) return null;
  return Number(time[0]) * NS_PER_S + Number(time[1]);
}
