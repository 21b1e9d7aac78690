import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { FoundSandbox, HostAdapter } from './adapter.js';
import { asDeclared, type Declared } from './declared.js';
import { tracksDirtyPages } from './firecracker-api.js';
import { judge, type GuestMemory, type MemoryFile } from './guest-memory.js';
import { foundId } from './names.js';
import { ProcFolder } from './proc-folder.js';
import {
  e2bSandbox,
  GuestMemories,
  option,
  virtualMachines,
  type VirtualMachine,
} from './virtual-machines.js';

export interface FirecrackerSettings extends Required<Declared> {
  /** The platform asks for `pre-pause` before it pauses or snapshots a machine, and waits for the answer. */
  prePause: boolean;
}

/** Where Firecracker listens when it is not told (its docs/getting-started.md). */
const DEFAULT_SOCKET = '/run/firecracker.socket';

/**
 * Firecracker without a platform that has an adapter of its own, with or without its jailer. A machine is named by `--id`,
 * which the jailer hands on; what it was restored from is the memory file that its guest memory is a private mapping of.
 */
export class FirecrackerAdapter implements HostAdapter {
  readonly name = 'firecracker';
  private readonly proc: ProcFolder;
  private readonly memories: GuestMemories;
  /** What each machine's API said; asked once. */
  private tracked = new Map<string, boolean>();

  constructor(
    private readonly settings: FirecrackerSettings,
    private readonly root = '/',
  ) {
    this.proc = new ProcFolder(root);
    this.memories = new GuestMemories(this.proc);
  }

  async find(): Promise<FoundSandbox[]> {
    const machines = virtualMachines(this.proc).filter((machine) => e2bSandbox(machine) === null);
    this.memories.keep(machines);
    const keys = new Set(machines.map(keyOf));
    this.tracked = new Map([...this.tracked].filter(([key]) => keys.has(key)));
    const names = new Set<string>();
    const found: FoundSandbox[] = [];
    for (const machine of machines) found.push(await this.describe(machine, names));
    return found;
  }

  private async describe(machine: VirtualMachine, names: Set<string>): Promise<FoundSandbox> {
    const memory = this.memories.of(machine);
    const { mode, why, hazards } = await this.verdict(machine, memory);
    const file = memory?.file ?? null;
    const sandbox: FoundSandbox = {
      id: foundId(this.name, nameOf(machine, names)),
      pids: [machine.pid],
      ...(file === null ? {} : { template: `memory-${file.device.replace(':', '-')}-${file.inode}` }),
      ...(file === null ? {} : { memoryFile: this.reach(machine, file) }),
      mode,
      why,
      hazards,
    };
    return asDeclared(this.name, sandbox, this.settings);
  }

  /**
   * A path of the memory file that outlives the machine, where there is one: its own when it is not jailed, that in the
   * jail's folder, and else the way through the machine.
   */
  private reach({ pid, argv }: VirtualMachine, { path, inode }: MemoryFile): string {
    const paths = [join(this.root, path), this.inJail(argv, path)];
    const here = paths.find(
      (name) => String(statSync(name, { bigint: true, throwIfNoEntry: false })?.ino) === inode,
    );
    return here ?? this.proc.fileOf(pid, path);
  }

  private inJail(argv: readonly string[], path: string): string {
    return join(this.root, 'srv/jailer/firecracker', option(argv, '--id') ?? '', 'root', path);
  }

  private async verdict(machine: VirtualMachine, memory: GuestMemory | null) {
    const { prePause } = this.settings;
    if (memory !== null && !this.proc.maySwap(machine.pid)) {
      memory = { ...memory, hazards: [...memory.hazards, 'no_swap'] };
    }
    // Nothing is asked of a machine that is only observed anyway.
    const free = judge(memory, { loseSwapped: false, prePause });
    if (free.mode === 'observe') return free;
    const loseSwapped = (await this.tracks(machine)) !== true;
    return judge(memory, { loseSwapped, prePause });
  }

  private async tracks(machine: VirtualMachine): Promise<boolean | null> {
    const key = keyOf(machine);
    const known = this.tracked.get(key);
    if (known !== undefined) return known;
    const socket = this.socketOf(machine);
    const told = socket === null ? null : await tracksDirtyPages(socket);
    if (told !== null) this.tracked.set(key, told);
    return told;
  }

  /** The API socket is named as the machine sees it, which a jailer has put into a root of its own. */
  private socketOf({ pid, argv }: VirtualMachine): string | null {
    const path = option(argv, '--api-sock') ?? DEFAULT_SOCKET;
    return [this.proc.fileOf(pid, path), this.inJail(argv, path)].find((name) => existsSync(name)) ?? null;
  }
}

const keyOf = ({ pid, startTime }: VirtualMachine): string => `${pid}:${startTime}`;

/** Two machines that say they have one name get one each, so that neither takes the other's place. */
function nameOf({ pid, startTime, argv }: VirtualMachine, taken: Set<string>): string {
  const own = `${pid}-${startTime}`;
  const given = option(argv, '--id') ?? own;
  const name = taken.has(given) ? `${given}.${own}` : given;
  taken.add(name);
  return name;
}
