import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import type { Share } from './urgency.js';

const PREFIX = 'agentzip-refine-';
/** For threads in haste, of each second. */
const REALTIME_US = 20_000;

/** What the versions of cgroups call things. Weights: of the scheduler for nice 0 and nice 10 (sched_prio_to_weight), and the least there is. */
const FILES = {
  1: { threads: 'tasks', weight: 'cpu.shares', weights: { 0: 1024, 10: 110, idle: 2 } },
  2: { threads: 'cgroup.threads', weight: 'cpu.weight', weights: { 0: 100, 10: 11, idle: 1 } },
} as const;

/** Where this process is in the hierarchy that has the cpu controller. */
export interface CpuHome {
  version: 1 | 2;
  mount: string;
  /** The folder of its cgroup. */
  path: string;
}

/**
 * A group of the cpu controller for single threads of this process. SCHED_IDLE and nice values count among
 * threads of one group or, where kernel.sched_autogroup_enabled is 1, of one session: against other sessions' tools an idle thread gets as
 * much of a processor as a busy one (0.79 s each of two loops on one processor; 0.00 s to 0.78 s from such a group).
 */
export class CpuGroup {
  private constructor(
    private readonly path: string,
    /** Where threads go that leave. */
    private readonly home: CpuHome,
    /** What else has to be undone. */
    private readonly undo: () => void,
  ) {}

  /** Null where there is no such controller, or none that may be written to. */
  static make(): CpuGroup | null {
    const read = (name: string): string => readFileSync(`/proc/self/${name}`, 'utf8');
    const home = homeIn(read('mountinfo'), read('cgroup'));
    if (home === null) return null;
    // With version 1 not below the process's own: what it may use of the processors would bound the pager as well.
    const parent = home.version === 1 ? home.mount : home.path;
    const path = `${parent}/${PREFIX}${process.pid}`;
    let undo = (): void => {};
    try {
      removeEmpty(parent);
      mkdirSync(path, { recursive: true });
      if (home.version === 2) undo = makeThreaded(parent, path);
      const group = new CpuGroup(path, home, undo);
      group.set('idle');
      // With CONFIG_RT_GROUP_SCHED a group has no real-time threads unless it is given time for them.
      const realtime = `${path}/cpu.rt_runtime_us`;
      if (existsSync(realtime)) writeFileSync(realtime, String(REALTIME_US));
      return group;
    } catch {
      new CpuGroup(path, home, undo).remove();
      return null;
    }
  }

  enter(tid: number): void {
    writeFileSync(`${this.path}/${this.files.threads}`, String(tid));
  }

  leave(tid: number): void {
    writeFileSync(`${this.home.path}/${this.files.threads}`, String(tid));
  }

  /** What its threads get of a processor that others want too. */
  set(share: Share): void {
    const idle = `${this.path}/cpu.idle`; // Linux 5.15
    const isIdle = share === 'idle';
    if (existsSync(idle)) writeFileSync(idle, isIdle ? '1' : '0');
    const { weight, weights } = this.files;
    if (!isIdle || !existsSync(idle)) writeFileSync(`${this.path}/${weight}`, String(weights[share]));
  }

  remove(): void {
    try {
      for (const tid of readFileSync(`${this.path}/${this.files.threads}`, 'utf8').split('\n'))
        if (tid !== '') this.leave(Number(tid));
      rmdirSync(this.path);
      this.undo();
    } catch {
      // The next pager removes it, once it is empty.
    }
  }

  private get files(): (typeof FILES)[1 | 2] {
    return FILES[this.home.version];
  }
}

/**
 * Makes a group one of threads, with the cpu controller (Documentation/admin-guide/cgroup-v2.rst, "Threads"): its parent's processes stay
 * where they are. Refused where the parent has given memory or io to groups below it. Returns what undoes it once the group is gone.
 */
function makeThreaded(parent: string, path: string): () => void {
  const control = `${parent}/cgroup.subtree_control`;
  writeFileSync(`${path}/cgroup.type`, 'threaded');
  if (readFileSync(control, 'utf8').split(/\s+/).includes('cpu')) return () => {};
  writeFileSync(control, '+cpu');
  return () => writeFileSync(control, '-cpu');
}

/** From the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`; null: nowhere. */
export function homeIn(mountinfo: string, cgroups: string): CpuHome | null {
  let unified: CpuHome | null = null;
  for (const line of mountinfo.split('\n')) {
    const [left, right] = line.split(' - ');
    const [type, , options = ''] = right?.split(' ') ?? [];
    const mount = left.split(' ')[4];
    if (type === 'cgroup' && options.split(',').includes('cpu')) {
      const own = /^\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:(.*)$/m.exec(cgroups)?.[1];
      if (own !== undefined) return { version: 1, mount, path: `${mount}${own}` };
    }
    const own = type === 'cgroup2' ? /^0::(.*)$/m.exec(cgroups)?.[1] : undefined;
    if (own !== undefined) unified = { version: 2, mount, path: `${mount}${own.replace(/\/$/, '')}` };
  }
  return unified;
}

/** Those of pagers that were killed. */
function removeEmpty(parent: string): void {
  for (const name of readdirSync(parent).filter((each) => each.startsWith(PREFIX))) {
    if (existsSync(`/proc/${name.slice(PREFIX.length)}`)) continue;
    try {
      rmdirSync(`${parent}/${name}`);
    } catch {
      // Another one has just removed it.
    }
  }
}
