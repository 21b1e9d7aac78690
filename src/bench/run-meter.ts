import { cpus } from 'node:os';
import { processesNaming } from './host.js';
import { type MachineTime, machineTime, TaskTimes } from './machine.js';
import { cpuSeconds, isAlive } from './processes.js';
import type { CpuSeconds } from './record.js';
import type { SandboxCpu } from './sandbox-cpu.js';
import type { System, SystemCpu } from './system.js';

/** Kernel threads come and go: a look now and then sees most of what those used that ended. */
const LOOK_MS = 10_000;
/** Of one processor: less than that is what a machine does by itself. */
const OTHERS_SHARE = 0.1;
const STOLEN_SHARE = 0.02;

export interface Usage {
  cpu: CpuSeconds;
  /** Of the machine's processor time, 0 to 1. */
  busyShare: number;
  disturbances: string[];
}

interface Start {
  at: number;
  machine: MachineTime;
  system: SystemCpu;
  sandboxes: number;
  bench: number;
  templates: number;
}

/** Who used the machine's processors over a run. */
export class RunMeter {
  private readonly tasks = new TaskTimes();
  private timer: NodeJS.Timeout | undefined;

  private constructor(
    private readonly parts: Parts,
    private readonly begin: Start,
  ) {
    this.tasks.look();
    this.timer = setInterval(() => this.tasks.look(), LOOK_MS);
  }

  static async start(parts: Parts): Promise<RunMeter> {
    return new RunMeter(parts, await now(parts));
  }

  stop(): void {
    clearInterval(this.timer);
  }

  /** What was used since the start. */
  async finish(): Promise<Usage> {
    this.stop();
    this.tasks.look();
    const { begin } = this;
    const end = await now(this.parts);
    const kernel = this.tasks.times().reduce((sum, task) => sum + (task.kernel ? task.seconds : 0), 0);
    const tools = end.sandboxes - begin.sandboxes;
    const controller = Math.max(0, end.system.controller - begin.system.controller);
    const pager = Math.max(0, end.system.pager - begin.system.pager);
    const cpu = { tools, controller, pager, kernel };
    const used = (of: keyof MachineTime): number => end.machine[of] - begin.machine[of];
    const busy = used('tasks') + used('interrupts');
    const all = busy + used('idle') + used('stolen');
    const ours =
      tools + controller + pager + kernel + end.bench - begin.bench + end.templates - begin.templates;
    const seconds = (end.at - begin.at) / 1000;
    return {
      cpu,
      busyShare: all === 0 ? 0 : busy / all,
      disturbances: [
        ...this.others((used('tasks') - ours) / seconds, seconds),
        ...stolen(used('stolen') / all),
      ],
    };
  }

  /** `share` is that of one processor which tasks have used that are neither ours nor the kernel's. */
  private others(share: number, seconds: number): string[] {
    if (share <= OTHERS_SHARE) return [];
    const tasks = this.tasks.times();
    const parents = new Map(tasks.map((task) => [task.pid, task.parent]));
    const named = new Set(processesNaming(this.parts.folder));
    const isOurs = (pid: number): boolean => {
      for (let at: number | undefined = pid; at !== undefined && at > 1; at = parents.get(at))
        if (at === process.pid || named.has(at)) return true;
      return false;
    };
    // Those still there: sandboxes are gone by now. What ran for less than the run stays nameless.
    const names = tasks
      .filter(
        ({ pid, kernel, seconds: used }) => !kernel && used / seconds > OTHERS_SHARE / 2 && isAlive(pid),
      )
      .filter(({ pid }) => !isOurs(pid))
      .sort((a, b) => b.seconds - a.seconds)
      .slice(0, 3)
      .map((task) => `${task.name} (pid ${task.pid})`);
    const who = names.length > 0 ? `, among them ${names.join(', ')}` : '';
    return [
      `other processes used ${Math.round(100 * share)} % of one of ${cpus().length} processors during the run${who}`,
    ];
  }
}

interface Parts {
  system: System;
  sandboxes: SandboxCpu;
  /** Pids of the templates, which wait. */
  templates: readonly number[];
  /** That of the run: its processes name it. */
  folder: string;
}

async function now({ system, sandboxes, templates }: Parts): Promise<Start> {
  const { user, system: kernel } = process.cpuUsage();
  return {
    at: Date.now(),
    machine: machineTime(),
    system: await system.cpu(),
    sandboxes: sandboxes.seconds(),
    bench: (user + kernel) / 1e6,
    templates: templates.reduce((sum, pid) => sum + cpuSeconds(pid), 0),
  };
}

const stolen = (share: number): string[] =>
  share > STOLEN_SHARE
    ? [`the hypervisor gave ${Math.round(100 * share)} % of the processor time to others during the run`]
    : [];
