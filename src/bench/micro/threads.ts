import { readdirSync, readFileSync } from 'node:fs';
import { failed } from '../lines.js';
import { taskStat, TICKS_PER_SECOND } from '../processes.js';

/** Fields of /proc/PID/task/TID/stat behind the name (proc(5)): utime, stime. */
const UTIME = 11;

/** Processor seconds so far of a process's threads whose name begins so. AgentZip's refine threads are `refine-N`. */
export function threadSecondsNamed(pid: number, prefix: string): number {
  let seconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${thread}`;
    const stat = taskStat(`${folder}/stat`);
    if (stat === null) throw failed(`thread ${thread} of process ${pid} ended`);
    if (readFileSync(`${folder}/comm`, 'latin1').startsWith(prefix))
      seconds += threadSeconds(folder, stat.fields);
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
