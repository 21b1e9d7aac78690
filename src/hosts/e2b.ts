import { readdirSync, readFileSync, statSync, watch } from 'node:fs';
import { basename, join } from 'node:path';
import { AgentZipError } from '../errors.js';
import type { FoundSandbox, HostAdapter, HostListener } from './adapter.js';
import { templateOf } from './e2b-templates.js';
import { asDeclared, type Declared } from './declared.js';
import { judge } from './guest-memory.js';
import { foundId } from './names.js';
import { ProcFolder } from './proc-folder.js';
import { e2bSandbox, GuestMemories, virtualMachines, type VirtualMachine } from './virtual-machines.js';

export interface E2bSettings extends Declared {
  /** The orchestrator asks for `pre-pause` before it pauses a sandbox, and waits for the answer. */
  prePause: boolean;
}

/** `sbx-SANDBOX-RAND`: a sandbox's cgroup; RAND is new each time it is resumed. */
const CGROUP = /^sbx-(.+)-([^-]+)$/;
const CGROUPS = 'sys/fs/cgroup/e2b';

/**
 * Hosts of E2B's infra (packages/orchestrator). Everything is read: its sockets, its metrics pipe and its gRPC service are
 * left alone, and nothing is ever made that its startup would take for its own and remove (SandboxFileGlobs, the prefix
 * `sbx-` of cgroups). Its dirty scan takes swapped pages for unwritten, so a pause would lose them.
 */
export class E2bAdapter implements HostAdapter {
  readonly name = 'e2b';
  private readonly proc: ProcFolder;
  private readonly memories: GuestMemories;

  constructor(
    private readonly settings: E2bSettings,
    private readonly root = '/',
  ) {
    this.proc = new ProcFolder(root);
    this.memories = new GuestMemories(this.proc);
  }

  async find(): Promise<FoundSandbox[]> {
    const machines = virtualMachines(this.proc);
    const found = new Map<string, FoundSandbox>();
    const taken: VirtualMachine[] = [];
    for (const machine of machines) {
      const sandbox = this.sandboxOf(machine);
      // Two incarnations for a moment, while one is resumed: the older is on its way out.
      if (sandbox === null) continue;
      taken.push(machine);
      found.set(sandbox, this.describe(sandbox, machine));
    }
    this.memories.keep(taken);
    return [...found.values()];
  }

  /** Cgroups of sandboxes come and go with them. */
  follow(listener: HostListener): () => void {
    const folder = join(this.root, CGROUPS);
    const failed = (error: Error): void => {
      const details = { platform: 'E2B', address: folder, reason: error.message, section: this.name };
      listener.failed(new AgentZipError('AZ_HOST_UNREACHABLE', details, { cause: error }));
    };
    try {
      const watcher = watch(folder, { persistent: false }, () => listener.changed());
      watcher.on('error', failed);
      return () => watcher.close();
    } catch (error) {
      failed(error as Error);
      return () => {};
    }
  }

  /** By its cgroup, or where there are none (v1) by its API socket. Null: the machine is not E2B's. */
  private sandboxOf(machine: VirtualMachine): string | null {
    const { pid } = machine;
    const cgroup = CGROUP.exec(basename(this.proc.cgroup(pid) ?? ''));
    return cgroup?.[1] ?? this.listedCgroup(pid) ?? e2bSandbox(machine);
  }

  /** Where the cgroups that it mounts are not those that processes name, as on a host with v1 and v2. */
  private listedCgroup(pid: number): string | null {
    for (const name of namesIn(join(this.root, CGROUPS))) {
      const sandbox = CGROUP.exec(name)?.[1];
      if (sandbox === undefined) continue;
      const members = contents(join(this.root, CGROUPS, name, 'cgroup.procs')).split('\n');
      if (members.includes(String(pid))) return sandbox;
    }
    return null;
  }

  private describe(sandbox: string, machine: VirtualMachine): FoundSandbox {
    let memory = this.memories.of(machine);
    if (memory !== null && !this.proc.maySwap(machine.pid)) {
      memory = { ...memory, hazards: [...memory.hazards, 'no_swap'] };
    }
    const { mode, why, hazards } = judge(memory, { loseSwapped: true, prePause: this.settings.prePause });
    const template = templateOf(machine, this.proc, this.root);
    const network = this.networkOf(machine.pid);
    const found: FoundSandbox = {
      id: foundId(this.name, sandbox),
      pids: [machine.pid],
      ...(template === null ? {} : { template }),
      mode,
      why: network === null ? why : `${why} (network ${network})`,
      hazards,
    };
    return asDeclared(this.name, found, this.settings);
  }

  /** `ns-INDEX`: names its veth and its address on the host. */
  private networkOf(pid: number): string | null {
    const own = this.proc.identity(pid, 'ns/net');
    if (own === null) return null;
    const folder = join(this.root, 'run/netns');
    for (const name of namesIn(folder)) {
      if (!name.startsWith('ns-')) continue;
      const stat = statSync(join(folder, name), { bigint: true, throwIfNoEntry: false });
      if (stat !== undefined && `${stat.dev}:${stat.ino}` === own) return name;
    }
    return null;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function contents(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
