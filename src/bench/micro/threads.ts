import { readdirSync, readFileSync } from 'node:fs';
import { failed } from '../lines.js';
import { taskStat, TICKS_PER_SECOND } from '../processes.js';

const SCHED_IDLE = 5;
/** Fields of /proc/PID/task/TID/stat behind the name (proc(5)): utime, stime, policy. */
const UTIME = 11;
const POLICY = 38;

/**
 * Processor seconds so far of a process's threads with scheduling policy SCHED_IDLE. In the pager these are the
 * refine threads and no others (src/pager/refine-worker.ts), so they need no name.
 */
export function idleThreadSeconds(pid: number): number {
  let seconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${thread}`;
    const stat = taskStat(`${folder}/stat`);
    if (stat === null) throw failed(`thread ${thread} of process ${pid} ended`);
    if (Number(stat.fields[POLICY]) === SCHED_IDLE) seconds += threadSeconds(folder, stat.fields);
  }
  return seconds;
}

/** To the nanosecond where the kernel keeps schedstats (CONFIG_SCHED_INFO), in ticks elsewhere. */
function threadSeconds(folder: string, fields: readonly string[]): number {
  try {
    return Number(readFileSync(`${folder}/schedstat`, 'latin1').split(' ')[0]) / 1e9;
  } catch {
    return (Number(fields[UTIME]) + Number(fields[UTIME + 1])) / TICKS_PER_SECOND;
  }
}
