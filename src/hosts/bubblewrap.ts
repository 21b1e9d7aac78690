import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import type { FoundSandbox, HostAdapter } from './adapter.js';
import { asDeclared, type Declared } from './declared.js';
import { foundId } from './names.js';
import { ProcFolder } from './proc-folder.js';

/** Template and tenant of all its sandboxes, which say neither. */
export type BubblewrapSettings = Required<Declared>;

/**
 * Devices with which a process can make those wait for ever who read its memory, as putting pages back does: it needs no
 * privilege for them in a user namespace of its own. bwrap's `--dev` leaves them out.
 */
const SNARES = ['/dev/fuse', '/dev/userfaultfd'];

/**
 * Sandboxes of bubblewrap, as `@anthropic-ai/sandbox-runtime` makes them on Linux. A `bwrap` of the host waits for its child,
 * which is the sandbox's first process: everything in there descends from it, further bwraps too. With `--unshare-user`, which that
 * package always asks for, it is in a user namespace of its own.
 */
export class BubblewrapAdapter implements HostAdapter {
  readonly name = 'bubblewrap';
  private readonly proc: ProcFolder;

  constructor(
    private readonly settings: BubblewrapSettings,
    root = '/',
  ) {
    this.proc = new ProcFolder(root);
  }

  async find(): Promise<FoundSandbox[]> {
    const pids = this.proc.pids();
    const bwraps = new Set(pids.filter((pid) => this.isBwrap(pid)));
    if (bwraps.size === 0) return [];
    const parents = new Map(pids.map((pid) => [pid, this.proc.parent(pid)]));
    const outermost = new Set([...bwraps].filter((pid) => !descends(pid, bwraps, parents)));
    return pids
      .filter((pid) => outermost.has(parents.get(pid) ?? 0))
      .flatMap((pid) => this.describe(pid) ?? []);
  }

  private describe(pid: number): FoundSandbox | null {
    const started = this.proc.startTime(pid);
    if (started === null) return null;
    const nested = this.proc.namespace(pid, 'user') !== this.proc.namespace(process.pid, 'user');
    const snare = nested ? SNARES.find((path) => existsSync(this.proc.fileOf(pid, path))) : undefined;
    const sandbox: FoundSandbox = {
      id: foundId(this.name, `${pid}-${started}`),
      pids: [pid],
      ...(nested ? { nested } : {}),
      mode: snare === undefined ? 'reclaim' : 'observe',
      why:
        snare === undefined
          ? `private memory of processes${nested ? ' in a user namespace below ours, found in our own process table' : ''}`
          : `it has a user namespace and ${snare}: reading its memory could wait for ever`,
      hazards: snare === undefined ? [] : ['userfaultfd'],
    };
    return asDeclared(this.name, sandbox, this.settings);
  }

  /** The host's own bwrap: what runs in a sandbox can call itself so. */
  private isBwrap(pid: number): boolean {
    const exe = this.proc.exe(pid);
    return exe !== null && basename(exe) === 'bwrap' && this.proc.runsHostFile(pid, exe);
  }
}

/** Is one of `pids` above it? */
function descends(pid: number, pids: ReadonlySet<number>, parents: ReadonlyMap<number, number>): boolean {
  for (let at = parents.get(pid) ?? 0; at > 0; at = parents.get(at) ?? 0) if (pids.has(at)) return true;
  return false;
}
