import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../errors.js';
import { cgroupMounts, type CgroupMount } from '../memory/cgroup.js';
import { isAlive } from './processes.js';

const PREFIX = 'agentzip-bench-';
const EMPTY_TIMEOUT_MS = 5000;

/** Where the memory controller is mounted, and whether as cgroup v1 or v2. */
export function memoryMount(): CgroupMount {
  const mount = cgroupMounts().find(({ memory }) => memory);
  if (mount !== undefined) return mount;
  throw new AgentZipError('AZ_WORKLOAD_FAILED', {
    reason: 'no memory cgroup is mounted',
    log: '/proc/self/mountinfo',
  });
}

const hasMemory = (file: string): boolean =>
  existsSync(file) && readFileSync(file, 'utf8').trim().split(' ').includes('memory');

/** Memory cgroups of this run's sandboxes, one each, below a group named after the bench's pid. */
export class SandboxCgroups {
  private constructor(
    private readonly root: string,
    private readonly restore: () => void,
  ) {}

  static create(): SandboxCgroups {
    const mount = memoryMount();
    removeStale(mount.path);
    const root = `${mount.path}/${PREFIX}${process.pid}`;
    const enable = (control: string): (() => void) => {
      if (mount.version === 1 || hasMemory(control)) return () => undefined;
      writeFileSync(control, '+memory');
      return () => writeFileSync(control, '-memory');
    };
    const restore = enable(`${mount.path}/cgroup.subtree_control`);
    mkdirSync(root);
    enable(`${root}/cgroup.subtree_control`);
    return new SandboxCgroups(root, restore);
  }

  /** Makes the cgroup of a sandbox and returns its absolute path. */
  add(id: string): string {
    mkdirSync(`${this.root}/${id}`);
    return `${this.root}/${id}`;
  }

  /** Ends what still runs in the sandbox and removes its cgroup. Does nothing when that is done already. */
  async remove(id: string): Promise<void> {
    await removeGroup(`${this.root}/${id}`);
  }

  async removeAll(): Promise<void> {
    if (!existsSync(this.root)) return;
    for (const id of children(this.root)) await this.remove(id);
    rmdirSync(this.root);
    this.restore();
  }
}

/** Pids in a cgroup, not in those below it; none when it is gone. */
export function pidsOf(cgroup: string): number[] {
  try {
    const lines = readFileSync(`${cgroup}/cgroup.procs`, 'utf8').split('\n');
    return lines.map(Number).filter((pid) => pid > 0); // 0 stands for a process of another pid namespace
  } catch {
    return [];
  }
}

/** Cgroups a bench left behind that still exist: this process's own ones. */
export function leftCgroups(): string[] {
  const root = `${memoryMount().path}/${PREFIX}${process.pid}`;
  return existsSync(root) ? [root] : [];
}

/**
 * Bytes of a cgroup's swap cache that no process maps: anonymous pages on its LRU lists beyond the mapped ones. The
 * kernel keeps a page there after it was written out, until it needs the memory, or until a fault takes it back.
 */
export function unmappedSwapCache(cgroup: string): number {
  let text: string;
  try {
    text = readFileSync(`${cgroup}/memory.stat`, 'utf8');
  } catch {
    return 0;
  }
  const stat = new Map(text.split('\n').map((line) => line.split(' ') as [string, string]));
  const read = (...names: string[]): number => Number(names.map((n) => stat.get(n)).find(Boolean) ?? 0);
  const listed = read('inactive_anon') + read('active_anon');
  return Math.max(0, listed - read('rss', 'anon') - read('shmem'));
}

const children = (path: string): string[] =>
  readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);

async function removeGroup(path: string): Promise<void> {
  const deadline = Date.now() + EMPTY_TIMEOUT_MS;
  while (existsSync(path)) {
    for (const pid of pidsOf(path)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // it ended by itself
      }
    }
    try {
      rmdirSync(path);
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(20);
    }
  }
}

/** A bench that was killed outright leaves empty cgroups: its sandboxes die with it, its groups can not. */
function removeStale(mount: string): void {
  for (const name of children(mount)) {
    if (!name.startsWith(PREFIX) || isAlive(Number(name.slice(PREFIX.length)))) continue;
    try {
      for (const id of children(`${mount}/${name}`)) rmdirSync(`${mount}/${name}/${id}`);
      rmdirSync(`${mount}/${name}`);
    } catch {
      // still in use, so not ours to take
    }
  }
}
