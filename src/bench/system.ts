import type { HostEvent, SandboxStatus, Status } from '../plugin/client.js';
import type { SandboxCgroups } from './cgroups.js';

export type { HostEvent, SandboxStatus, Status };

/** Every system under test; systems/table.ts says what each is. */
export const SYSTEM_NAMES = [
  'none',
  'agentzip',
  'agentzip-no-delta',
  'agentzip-no-siblings',
  'agentzip-no-prefetch',
  'agentzip-no-windows',
  'agentzip-hot-pages-kept',
  'agentzip-no-dictionary',
  'agentzip-predicted',
  'agentzip-first-token',
  'agentzip-zswap',
  'agentzip-zram',
  'zram-lzo-rle-pressure',
  'zram-lzo-rle-aggressive',
  'zram-lz4-pressure',
  'zram-lz4-aggressive',
  'zram-zstd-pressure',
  'zram-zstd-aggressive',
  'zswap-pressure',
  'zswap-aggressive',
  'ksm',
  'ksm+zram',
] as const;
export type SystemName = (typeof SYSTEM_NAMES)[number];

/** A system as it stands in a sentence. */
export const labelOf = (name: SystemName): string =>
  name === 'none' ? 'without AgentZip' : name === 'agentzip' ? 'with AgentZip' : `with ${name}`;

/** What stands before AgentZip's device, see `pager.tier` of the policy; and AgentZip with it. */
export const TIERS = { direct: 'agentzip', zswap: 'agentzip-zswap', zram: 'agentzip-zram' } as const;
export type TierName = keyof typeof TIERS;

/** What a system under test holds outside the sandboxes, in bytes. */
export interface Pools {
  /** Where the sandboxes' compressed pages are: the store, and the kernel's zram and zswap. */
  pool: number;
  /** Resident pages of templates. */
  base: number;
  /** Resident memory of the system's processes beyond both. */
  overhead: number;
  status: Status | null;
}

export const NO_POOLS: Pools = { pool: 0, base: 0, overhead: 0, status: null };

/** Processor time of a system's own processes so far, in seconds; 0 for what it does not have. */
export interface SystemCpu {
  controller: number;
  pager: number;
}

export const NO_CPU: SystemCpu = { controller: 0, pager: 0 };

/** A system under test as the host platform sees it. Every call may take as long as it takes: that is measured. */
export interface System {
  readonly name: SystemName;
  start(): Promise<void>;
  /** `memoryFile`: of a template of machines, whose memory is a private mapping of it. */
  addTemplate(id: string, tenant: string, pid: number, memoryFile?: string): Promise<void>;
  addSandbox(id: string, template: string, tenant: string, cgroup: string): Promise<void>;
  event(id: string, event: HostEvent): Promise<void>;
  /** The sandbox has done its task; its processes still live. Null when the system keeps no account. */
  account(id: string): Promise<SandboxStatus | null>;
  /** Its processes are gone. */
  removeSandbox(id: string): Promise<void>;
  pools(): Promise<Pools>;
  cpu(): Promise<SystemCpu>;
  /** Ends the system in order; what it held is given back before this resolves. Also after a start that failed. */
  stop(): Promise<void>;
  /** What it left on this host after `stop`, in words; absent for a system that changes nothing. */
  left?(): string[];
  /** What it could not do here; read after the run. */
  readonly notes?: readonly string[];
  /** Put before the command of every program of the workload; it becomes that program (execve). */
  readonly launcher?: readonly string[];
}

/** What a system is made with, for one run. */
export interface SystemContext {
  /** Folder of the run for sockets, state and policy files; on disk. */
  folder: string;
  /** Takes what its processes print; outlives the folder when it fails. */
  log: string;
  /** File for OTLP JSON spans. */
  spans?: string;
  /** The cgroups of the run's sandboxes. */
  cgroups: SandboxCgroups;
  /** What all sandboxes take together at their ends, roughly; sizes swap areas. */
  memoryBytes?: number;
}

/** A row of systems/table.ts. */
export interface SystemEntry {
  /** One sentence, for --help and the report. */
  description: string;
  make(context: SystemContext): System;
  /** Why this host can not run it, or null. */
  requires?(): string | null;
}
