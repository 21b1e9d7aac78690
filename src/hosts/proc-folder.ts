import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { maySwap } from '../memory/cgroup.js';

/** Ways in which the kernel says that a process has ended while it was looked at, or is not ours to look into. */
const GONE = ['ENOENT', 'ESRCH', 'EACCES', 'ENOTDIR', 'EINVAL'];

/** What adapters read of processes, below a root that tests may choose. Null or empty: the process is gone. */
export class ProcFolder {
  /** Arguments by process, each with what names the program that it ran with them. */
  private readonly arguments = new Map<number, { program: string; argv: string[] }>();

  constructor(private readonly root: string = '/') {}

  pids(): number[] {
    const pids = (this.read(() => readdirSync(join(this.root, 'proc'))) ?? [])
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
    const living = new Set(pids);
    for (const pid of this.arguments.keys()) if (!living.has(pid)) this.arguments.delete(pid);
    return pids;
  }

  /** File that it runs; null for a thread of the kernel too. */
  exe(pid: number): string | null {
    const link = this.read(() => readlinkSync(this.path(pid, 'exe')));
    return link === null ? null : link.replace(/ \(deleted\)$/, '');
  }

  /**
   * Its arguments. They are read from its memory, where a process of a user namespace could have mapped a file that never
   * answers: ask only of programs of the platform, never of what runs in a sandbox. They can hold secrets. Read once for each
   * program that a process runs: the page they are in may be out, and would come back each time.
   */
  argv(pid: number): string[] {
    const program = this.program(pid);
    const known = this.arguments.get(pid);
    if (program !== null && known?.program === program) return known.argv;
    const argv = this.readArgv(pid);
    if (program !== null && argv.length > 0) this.arguments.set(pid, { program, argv });
    return argv;
  }

  private readArgv(pid: number): string[] {
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

  /** When a process was started, and where its program's arguments are: they move with each exec. Null: that is not told. */
  private program(pid: number): string | null {
    const stat = this.stat(pid);
    const [startTime, from, to] = [stat[19], stat[45], stat[46]];
    return from === undefined || from === '0' ? null : `${startTime}:${from}:${to}`;
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
