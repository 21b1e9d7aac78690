import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

/** A process that can not be mistaken for a later one with the same pid. */
export interface ProcessId {
  readonly pid: number;
  /** Clock ticks after boot (field 22 of /proc/PID/stat). */
  readonly startTime: number;
}

interface Stat extends ProcessId {
  parent: number;
  zombie: boolean;
}

const gone = (error: unknown): boolean =>
  ['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '');

function readStat(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name may hold spaces and parentheses; what follows its last one does not.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return {
      pid,
      zombie: fields[0] === 'Z' || fields[0] === 'X',
      parent: Number(fields[1]),
      startTime: Number(fields[19]),
    };
  } catch (error) {
    if (gone(error)) return null;
    throw error;
  }
}

/** The process behind a pid now; null when there is none or only a zombie, which has no memory left. */
export function identify(pid: number): ProcessId | null {
  const stat = readStat(pid);
  return stat === null || stat.zombie ? null : { pid, startTime: stat.startTime };
}

/** Command name of a process, at most 15 bytes; empty when it is gone. */
export function commandName(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trimEnd();
  } catch (error) {
    if (gone(error)) return '';
    throw error;
  }
}

export const isAlive = (process: ProcessId): boolean =>
  identify(process.pid)?.startTime === process.startTime;

/** User namespace of a process, like `user:[4026531837]`; null when it is gone. */
export function userNamespace(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/ns/user`);
  } catch (error) {
    if (gone(error)) return null;
    throw error;
  }
}

/** Children by /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN); null where the kernel has no such file. */
function childrenOf(pid: number): number[] | null {
  const children: number[] = [];
  let listed = false;
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch (error) {
    if (gone(error)) return [];
    throw error;
  }
  for (const thread of threads) {
    try {
      const text = readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1');
      listed = true;
      children.push(...text.split(' ').filter(Boolean).map(Number));
    } catch (error) {
      if (!gone(error)) throw error;
    }
  }
  return listed || readStat(pid) === null ? children : null;
}

function parentTable(): Map<number, number[]> {
  const table = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? readStat(Number(name)) : null;
    if (stat === null) continue;
    const siblings = table.get(stat.parent);
    if (siblings) siblings.push(stat.pid);
    else table.set(stat.parent, [stat.pid]);
  }
  return table;
}

/** `roots` that live and all their descendants, each once. Orphans adopted by init are not found this way. */
export function processTree(roots: readonly number[]): number[] {
  const seen = new Set<number>();
  const queue = [...roots];
  let table: Map<number, number[]> | undefined;
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    if (seen.has(pid) || identify(pid) === null) continue;
    seen.add(pid);
    queue.push(...(childrenOf(pid) ?? (table ??= parentTable()).get(pid) ?? []));
  }
  return [...seen];
}
