import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import type { Share } from './urgency.js';

const PREFIX = 'agentzip-refine-';
/** Of the scheduler for nice 0 and nice 10 (kernel/sched/core.c, sched_prio_to_weight), and the least there is. */
const SHARES = { 0: 1024, 10: 110, idle: 2 } as const;

/** For threads in haste, of each second. */
const REALTIME_US = 20_000;

/**
 * A group of the cpu controller of cgroup v1 for single threads of this process. SCHED_IDLE and nice values count among
 * threads of one group or, where kernel.sched_autogroup_enabled is 1, of one session: against other sessions' tools an idle thread gets as
 * much of a processor as a busy one (0.79 s each of two loops on one processor; 0.00 s to 0.78 s from such a group).
 */
export class CpuGroup {
  private constructor(
    private readonly path: string,
    /** Where threads go that leave. */
    private readonly home: string,
  ) {}

  /** Null where there is no such controller, or none that may be written to. */
  static make(): CpuGroup | null {
    const mount = ownMount();
    const home = /^\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1];
    if (mount === null || home === undefined) return null;
    const group = new CpuGroup(`${mount}/${PREFIX}${process.pid}`, `${mount}${home}`);
    try {
      CpuGroup.clear();
      mkdirSync(group.path, { recursive: true });
      group.set('idle');
      // With CONFIG_RT_GROUP_SCHED a group has no real-time threads unless it is given time for them.
      const realtime = `${group.path}/cpu.rt_runtime_us`;
      if (existsSync(realtime)) writeFileSync(realtime, String(REALTIME_US));
      return group;
    } catch {
      group.remove();
      return null;
    }
  }

  /** Removes those of pagers that were killed. */
  static clear(): void {
    const mount = ownMount();
    if (mount === null) return;
    for (const name of readdirSync(mount).filter((each) => each.startsWith(PREFIX))) {
      // Which a process that has ended has no more, though nobody may have asked for its status yet.
      if (existsSync(`/proc/${name.slice(PREFIX.length)}/exe`)) continue;
      try {
        rmdirSync(`${mount}/${name}`);
      } catch {
        // Another one has just removed it, or its threads are ending.
      }
    }
  }

  enter(tid: number): void {
    writeFileSync(`${this.path}/tasks`, String(tid));
  }

  leave(tid: number): void {
    writeFileSync(`${this.home}/tasks`, String(tid));
  }

  /** What its threads get of a processor that others want too. */
  set(share: Share): void {
    const idle = `${this.path}/cpu.idle`; // Linux 5.15
    const isIdle = share === 'idle';
    if (existsSync(idle)) writeFileSync(idle, isIdle ? '1' : '0');
    if (!isIdle || !existsSync(idle)) writeFileSync(`${this.path}/cpu.shares`, String(SHARES[share]));
  }

  remove(): void {
    try {
      for (const tid of readFileSync(`${this.path}/tasks`, 'utf8').split('\n'))
        if (tid !== '') this.leave(Number(tid));
      rmdirSync(this.path);
    } catch {
      // The next pager removes it, once it is empty: see `clear`.
    }
  }
}

/** Mount point of the cpu controller of cgroup v1 in the text of a mountinfo. */
export function mountOf(mountinfo: string): string | null {
  for (const line of mountinfo.split('\n')) {
    const [left, right] = line.split(' - ');
    const [type, , options = ''] = right?.split(' ') ?? [];
    if (type === 'cgroup' && options.split(',').includes('cpu')) return left.split(' ')[4];
  }
  return null;
}

const ownMount = (): string | null => mountOf(readFileSync('/proc/self/mountinfo', 'utf8'));
