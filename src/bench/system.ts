import type { HostEvent, SandboxStatus, Status } from '../plugin/client.js';

export type { HostEvent, SandboxStatus, Status };

export type SystemName = 'none' | 'agentzip';

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

/** A system under test as the host platform sees it. Every call may take as long as it takes: that is measured. */
export interface System {
  readonly name: SystemName;
  start(): Promise<void>;
  addTemplate(id: string, pid: number): Promise<void>;
  addSandbox(id: string, template: string, cgroup: string): Promise<void>;
  event(id: string, event: HostEvent): Promise<void>;
  /** The sandbox has done its task; its processes still live. Null when the system keeps no account. */
  account(id: string): Promise<SandboxStatus | null>;
  /** Its processes are gone. */
  removeSandbox(id: string): Promise<void>;
  pools(): Promise<Pools>;
  /** Ends the system in order; what it held is given back before this resolves. */
  stop(): Promise<void>;
}

/** No memory system: what the sandboxes take and how fast they are by themselves. */
export class NoSystem implements System {
  readonly name = 'none';

  async start(): Promise<void> {}
  async addTemplate(): Promise<void> {}
  async addSandbox(): Promise<void> {}
  async event(): Promise<void> {}
  async removeSandbox(): Promise<void> {}
  async stop(): Promise<void> {}

  async account(): Promise<null> {
    return null;
  }

  async pools(): Promise<Pools> {
    return NO_POOLS;
  }
}
