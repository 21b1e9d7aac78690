import type { Pager } from '../pager/client.js';
import {
  type ClaimResult,
  NO_SWAP_TYPE,
  type Op,
  type PagerInfo,
  type PagerStatus,
  type RefineResult,
  type Requests,
} from '../pager/protocol.js';

const NO_ENCODINGS = {
  ...{ same: 0, duplicate: 0, template: 0, delta: 0, sparse: 0, dictionary: 0, clustered: 0 },
  ...{ zstd: 0, raw: 0, staged: 0 },
};
const NO_MEMORY = {
  ...{ arenaHeldBytes: 0, arenaUsedBytes: 0, tableHeldBytes: 0, tableUsedBytes: 0 },
  ...{ indexHeldBytes: 0, indexUsedBytes: 0 },
};

/** Where there is no device. */
const ABSENT: PagerInfo = {
  ...{ pid: 0, version: 'none', device: 'none', swapType: NO_SWAP_TYPE, slots: 1, takeovers: 0 },
  ...{
    frontEnd: null,
    frontEndReason: 'a dry run has no device',
    protocol: 0,
    storeFormat: 0,
    tier: 'direct',
  },
};
const STATUS: PagerStatus = {
  ...{ poolBytes: 0, baseBytes: 0, usedSlots: 0, foreignSlots: 0, store: NO_MEMORY },
  ...{ encodings: NO_ENCODINGS, encodingBytes: NO_ENCODINGS, reads: 0, writes: 0, discards: 0 },
  ...{ freedSlots: 0, refusedWrites: 0, corruptPages: 0, lastCorrupt: null, storeLimitBytes: 0 },
  ...{ sequence: 0, takeovers: 0, standbyPid: null, packs: [], owners: [] },
};
const NOTHING_REFINED: RefineResult = {
  ...{ pages: 0, bytesIn: 0, bytesOut: 0, cpuMs: 0, remaining: 0, misfits: 0, encodings: NO_ENCODINGS },
  ...{ deltas: { pages: 0, bytes: 0 }, times: { startedAtMs: null, refinedAtMs: null, endedAtMs: null } },
};

/** Stands where the pager would in a dry run: holds nothing, and does nothing. */
export class AbsentPager implements Pager {
  onTakeover = (): void => {};
  readonly takeovers = 0;
  readonly warnings: string[] = [];
  readonly closed: Promise<void>;
  private settle!: () => void;

  constructor() {
    this.closed = new Promise((resolve) => (this.settle = resolve));
  }

  async request<O extends Op>(op: O): Promise<Requests[O]['reply']> {
    const replies: Partial<{ [P in Op]: Requests[P]['reply'] }> = {
      ...{ hello: ABSENT, status: STATUS, sequence: { sequence: 0 }, closeWindow: NOTHING_REFINED },
      loadPack: { pack: 0, pages: 0, distinctPages: 0 },
    };
    // A pager that has drained ends.
    if (op === 'drain') this.settle();
    return (replies[op] ?? {}) as Requests[O]['reply'];
  }

  async claim(): Promise<ClaimResult> {
    return { stale: [] };
  }

  async writtenSince(): Promise<(index: number) => boolean> {
    return () => false;
  }

  async expect(): Promise<void> {}

  async demandReads(): Promise<null> {
    return null;
  }

  async deviceLogs(): Promise<null> {
    return null;
  }

  async watch(): Promise<number> {
    return 0;
  }

  async free(): Promise<number> {
    return 0;
  }

  close(): void {
    this.settle();
  }
}
