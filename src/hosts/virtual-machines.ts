import { basename } from 'node:path';
import { guestMemory, type GuestMemory } from './guest-memory.js';
import type { ProcFolder } from './proc-folder.js';

/** A running Firecracker. */
export interface VirtualMachine {
  pid: number;
  startTime: string;
  exe: string;
  argv: readonly string[];
}

/** Value of an option that is given as `--name value` or `--name=value`. */
export function option(argv: readonly string[], name: string): string | null {
  const at = argv.findIndex((word) => word === name || word.startsWith(`${name}=`));
  if (at < 0) return null;
  return argv[at] === name ? (argv[at + 1] ?? null) : argv[at].slice(name.length + 1);
}

/** `/tmp/fc-SANDBOX-RAND.sock`: how E2B's orchestrator names the API socket of a sandbox. */
const E2B_SOCKET = /\/fc-(.+)-([^-/]+)\.sock$/;
/** `/fc-versions/VERSION/ARCH/firecracker`: where it keeps the program. */
const E2B_EXE = /\/fc-versions\/([^/]+)\/(?:[^/]+\/)?firecracker$/;

/** Id of the sandbox that a machine of E2B's is, by its API socket; null for any other machine. */
export function e2bSandbox({ exe, argv }: VirtualMachine): string | null {
  if (!E2B_EXE.test(exe)) return null;
  return E2B_SOCKET.exec(option(argv, '--api-sock') ?? '')?.[1] ?? null;
}

/** Version of the program that a machine of E2B's runs. */
export const e2bVersion = ({ exe }: VirtualMachine): string | null => E2B_EXE.exec(exe)?.[1] ?? null;

/** Finds Firecrackers by the file they run, which a jailer copies into the jail under its own name. */
export function virtualMachines(proc: ProcFolder): VirtualMachine[] {
  const own = proc.namespace(process.pid, 'user');
  const found: VirtualMachine[] = [];
  for (const pid of proc.pids()) {
    const exe = proc.exe(pid);
    if (exe === null || basename(exe) !== 'firecracker') continue;
    // A program of that name that somebody runs in a user namespace is no platform's.
    if (proc.namespace(pid, 'user') !== own) continue;
    const startTime = proc.startTime(pid);
    if (startTime !== null) found.push({ pid, startTime, exe, argv: proc.argv(pid) });
  }
  return found;
}

/**
 * The guest memory of machines, read once each: smaps walks the page tables of all of it. A machine has none before its
 * snapshot is loaded, and is then looked at again.
 */
export class GuestMemories {
  private known = new Map<string, GuestMemory>();

  constructor(private readonly proc: ProcFolder) {}

  of({ pid, startTime }: VirtualMachine): GuestMemory | null {
    const key = `${pid}:${startTime}`;
    const memory = this.known.get(key) ?? guestMemory(this.proc.smaps(pid));
    if (memory !== null) this.known.set(key, memory);
    return memory;
  }

  /** Forgets machines other than these. */
  keep(machines: readonly VirtualMachine[]): void {
    const keys = new Set(machines.map(({ pid, startTime }) => `${pid}:${startTime}`));
    this.known = new Map([...this.known].filter(([key]) => keys.has(key)));
  }
}
