import { setTimeout as sleep } from 'node:timers/promises';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { pidsOf } from './cgroups.js';
import { cpuSeconds, isAlive } from './processes.js';

const PREFIX = 'agentzip-bench-';
const EMPTY_TIMEOUT_MS = 5000;

/** What says how much processor time a sandbox has used, in seconds since some instant. */
type Clock = () => number;

/**
 * Processor time of sandboxes. From their cgroup on v2, or a cgroup of `cpuacct` on v1: that counts also processes
 * which have ended and nobody has waited for. Elsewhere from /proc, which does not.
 */
export class SandboxCpu {
  private readonly used = new Map<string, { clock: Clock; at: number }>();
  private total = 0;

  private constructor(private readonly root: string | null) {}

  static create(): SandboxCpu {
    const mount = accountingMount();
    if (mount === null) return new SandboxCpu(null);
    removeStale(mount);
    const root = `${mount}/${PREFIX}${process.pid}`;
    mkdirSync(root, { recursive: true });
    return new SandboxCpu(root);
  }

  /** Counts from now on what the processes in `cgroup` use. */
  add(id: string, cgroup: string): void {
    const clock = this.clockOf(id, cgroup);
    this.used.set(id, { clock, at: clock() });
  }

  /** Seconds of all sandboxes so far, those that have been removed among them. */
  seconds(): number {
    let sum = this.total;
    for (const { clock, at } of this.used.values()) sum += Math.max(0, clock() - at);
    return sum;
  }

  /** Call while its processes live. */
  remove(id: string): void {
    const entry = this.used.get(id);
    if (entry === undefined) return;
    this.total += Math.max(0, entry.clock() - entry.at);
    this.used.delete(id);
  }

  /** Removes the groups; their processes must have been ended. */
  async end(): Promise<void> {
    const deadline = Date.now() + EMPTY_TIMEOUT_MS;
    while (this.root !== null && existsSync(this.root)) {
      try {
        removeTree(this.root);
      } catch (error) {
        if (Date.now() > deadline) throw error; // a process that was killed may take a moment to go
        await sleep(20);
      }
    }
  }

  private clockOf(id: string, cgroup: string): Clock {
    if (existsSync(`${cgroup}/cpu.stat`)) return () => usageUsec(`${cgroup}/cpu.stat`) / 1e6;
    if (this.root === null) {
      return () => pidsOf(cgroup).reduce((sum, pid) => sum + cpuSeconds(pid), 0);
    }
    const group = `${this.root}/${id}`;
    mkdirSync(group, { recursive: true });
    for (const pid of pidsOf(cgroup)) writeFileSync(`${group}/cgroup.procs`, String(pid));
    return () => Number(readFileSync(`${group}/cpuacct.usage`, 'utf8')) / 1e9;
  }
}

/** Cgroups of this process that accounting left behind. */
export function leftAccounting(): string[] {
  const mount = accountingMount();
  const root = `${mount}/${PREFIX}${process.pid}`;
  return mount !== null && existsSync(root) ? [root] : [];
}

/** Removes the groups of benches that are gone. */
function removeStale(mount: string): void {
  for (const name of readdirSync(mount)) {
    if (!name.startsWith(PREFIX) || isAlive(Number(name.slice(PREFIX.length)))) continue;
    try {
      removeTree(`${mount}/${name}`);
    } catch {
      // still in use, so not ours to take
    }
  }
}

/**
 * Mount of cgroup v1's `cpuacct`; null when there is none of its own. Where it is one hierarchy with `cpu`, a group
 * would also be a share of the processor, and change what is measured.
 */
function accountingMount(): string | null {
  for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
    const [left, right] = line.split(' - ');
    const [type, , options = ''] = right?.split(' ') ?? [];
    const controllers = options.split(',');
    if (type === 'cgroup' && controllers.includes('cpuacct') && !controllers.includes('cpu'))
      return left.split(' ')[4];
  }
  return null;
}

function usageUsec(file: string): number {
  const match = /^usage_usec (\d+)$/m.exec(readFileSync(file, 'utf8'));
  return match ? Number(match[1]) : 0;
}

function removeTree(root: string): void {
  if (!existsSync(root)) return;
  for (const entry of readdirSync(root, { withFileTypes: true })) {
    if (entry.isDirectory()) rmdirSync(`${root}/${entry.name}`);
  }
  rmdirSync(root);
}
