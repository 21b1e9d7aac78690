import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { maySwap } from '../memory/cgroup.js';

/** Ways in which the kernel says that a process has ended while it was looked at, or is not ours to look into. */
const GONE = ['ENOENT', 'ESRCH', 'EACCES', 'ENOTDIR', 'EINVAL'];

/** What adapters read of processes, below a root that tests may choose. Null or empty: the process is gone. */
export class ProcFolder {
  constructor(private readonly root: string = '/') {}

  pids(): number[] {
    return (this.read(() => readdirSync(join(this.root, 'proc'))) ?? [])
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  }

  /** File that it runs; null for a thread of the kernel too. */
  exe(pid: number): string | null {
    const link = this.read(() => readlinkSync(this.path(pid, 'exe')));
    return link === null ? null : link.replace(/ \(deleted\)$/, '');
  }

  /**
   * Its arguments. They are read from its memory, where a process of a user namespace could have mapped a file that never
   * answers: ask only of programs of the platform, never of what runs in a sandbox. They can hold secrets.
   */
  argv(pid: number): string[] {
    const text = this.read(() => readFileSync(this.path(pid, 'cmdline'), 'utf8')) ?? '';
    return text.split('\0').slice(0, -1);
  }

  parent(pid: number): number {
    return Number(this.stat(pid)[1] ?? 0);
  }

  /** Clock ticks after boot; with the pid it names a process for ever. */
  startTime(pid: number): string | null {
    return this.stat(pid)[19] ?? null;
  }

  /** Like `net:[4026531840]`. */
  namespace(pid: number, kind: 'user' | 'net' | 'pid'): string | null {
    return this.read(() => readlinkSync(this.path(pid, `ns/${kind}`)));
  }

  smaps(pid: number): string {
    return this.read(() => readFileSync(this.path(pid, 'smaps'), 'utf8')) ?? '';
  }

  /** Path of its cgroup below the mount of the memory controller, which is v1's where that has one. */
  cgroup(pid: number): string | null {
    const text = this.read(() => readFileSync(this.path(pid, 'cgroup'), 'utf8')) ?? '';
    let path: string | null = null;
    for (const line of text.split('\n')) {
      const [, controllers, below] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
      if (controllers?.split(',').includes('memory')) return below;
      if (controllers === '') path = below;
    }
    return path;
  }

  /** See maySwap of memory/cgroup.ts; of version 2. */
  maySwap(pid: number): boolean {
    const path = join(this.root, 'sys/fs/cgroup');
    const cgroup = this.cgroup(pid);
    return cgroup === null || maySwap(join(path, cgroup), [{ version: 2, path, memory: true }]);
  }

  /** Path by which this process reaches a file that the other one calls `path`, in whatever mount namespace. */
  fileOf(pid: number, path: string): string {
    return join(this.path(pid, 'root'), path);
  }

  /** Is `exe`, what it says it runs, the host's own file of that path? In a sandbox another one can have the path. */
  runsHostFile(pid: number, exe: string): boolean {
    const file = this.read(() => statSync(exe, { bigint: true }));
    return file !== null && `${file.dev}:${file.ino}` === this.identity(pid, 'exe');
  }

  /** Device and inode behind a link of its folder, e.g. of `ns/net`. */
  identity(pid: number, name: string): string | null {
    return this.read(() => {
      const { dev, ino } = statSync(this.path(pid, name), { bigint: true });
      return `${dev}:${ino}`;
    });
  }

  private path(pid: number, name: string): string {
    return join(this.root, 'proc', String(pid), name);
  }

  /** Fields of its stat from the third on: the name before them may hold blanks. */
  private stat(pid: number): string[] {
    const text = this.read(() => readFileSync(this.path(pid, 'stat'), 'latin1')) ?? '';
    return text === '' ? [] : text.slice(text.lastIndexOf(')') + 2).split(' ');
  }

  private read<T>(look: () => T): T | null {
    try {
      return look();
    } catch (error) {
      if (GONE.includes((error as NodeJS.ErrnoException).code ?? '')) return null;
      throw error;
    }
  }
}
