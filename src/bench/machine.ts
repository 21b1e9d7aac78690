import { readdirSync, readFileSync } from 'node:fs';
import { taskStat, TICKS_PER_SECOND } from './processes.js';

/** include/linux/sched.h: set for threads of the kernel. */
const PF_KTHREAD = 0x00200000;

/** The machine's processor time so far, in seconds, over all processors. */
export interface MachineTime {
  /** Tasks of users and of the kernel. */
  tasks: number;
  /** Interrupts, which belong to nobody. */
  interrupts: number;
  /** What the hypervisor gave to others. */
  stolen: number;
  idle: number;
}

export function machineTime(): MachineTime {
  const [line] = readFileSync('/proc/stat', 'latin1').split('\n');
  const [user, nice, system, idle, iowait, irq, softirq, steal] = line
    .split(/\s+/)
    .slice(1)
    .map((ticks) => Number(ticks) / TICKS_PER_SECOND);
  return {
    tasks: user + nice + system,
    interrupts: irq + softirq,
    stolen: steal,
    idle: idle + iowait,
  };
}

export interface TaskTime {
  pid: number;
  /** Pid of its parent at the last look. */
  parent: number;
  name: string;
  kernel: boolean;
  /** Own processor time between the first look and the last at which it was there. Seconds, without children. */
  seconds: number;
}

/** Processor time of every task of the machine, kernel threads and others, over repeated looks. */
export class TaskTimes {
  private readonly seen = new Map<string, { task: Task; first: number }>();

  /** Tasks that are new at a further look have used all of their time since the one before. */
  look(): void {
    const isFirst = this.seen.size === 0;
    for (const pid of readdirSync('/proc')) {
      const task = /^\d+$/.test(pid) ? taskOf(Number(pid)) : null;
      if (task === null) continue;
      const entry = this.seen.get(task.key);
      if (entry === undefined) this.seen.set(task.key, { task, first: isFirst ? task.seconds : 0 });
      else entry.task = task;
    }
  }

  times(): TaskTime[] {
    return [...this.seen.values()].map(({ task, first }) => ({
      pid: task.pid,
      parent: task.parent,
      name: task.name,
      kernel: task.kernel,
      seconds: task.seconds - first,
    }));
  }
}

interface Task {
  /** No later task has the same. */
  key: string;
  pid: number;
  parent: number;
  name: string;
  kernel: boolean;
  /** Since it started. */
  seconds: number;
}

/** Null when it is gone. */
function taskOf(pid: number): Task | null {
  const stat = taskStat(`/proc/${pid}/stat`);
  if (stat === null) return null;
  const { name, fields } = stat;
  return {
    key: `${pid} ${fields[19]}`,
    pid,
    parent: Number(fields[1]),
    name,
    kernel: (Number(fields[6]) & PF_KTHREAD) !== 0,
    seconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
  };
}
