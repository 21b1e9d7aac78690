import { setImmediate as nextTurn } from 'node:timers/promises';
import { pidsOf, unmappedSwapCache } from './cgroups.js';
import { type Memory, MemoryMeter } from './owned.js';
import type { Sample } from './record.js';
import { NO_POOLS, type Pools, type Status, type System } from './system.js';

/** Both cost processor time that the sandboxes could use, some milliseconds a sandbox. */
const SAMPLE_MS = 1000;
const ASK_MS = 1000;

/** Measures the sandboxes and the system at intervals, for as long as sandboxes are added to it. */
export class Sampler {
  readonly samples: Sample[] = [];
  fullest: Status | null = null;
  latest: Pools = NO_POOLS;
  private readonly meter = new MemoryMeter();
  private readonly live = new Map<string, { cgroup: string; memory: Memory }>();
  private readonly timers: NodeJS.Timeout[] = [];
  private asking: Promise<void> | null = null;
  private sampling: Promise<void> | null = null;
  private failure: unknown;

  constructor(private readonly system: System) {}

  start(): void {
    this.timers.push(setInterval(() => this.sample(), SAMPLE_MS));
    this.timers.push(setInterval(() => this.ask(), ASK_MS));
    this.ask();
    this.sample();
  }

  async stop(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer);
    await Promise.all([this.asking, this.sampling]);
  }

  /** Throws what went wrong while it measured. */
  check(): void {
    if (this.failure !== undefined) throw this.failure;
  }

  add(id: string, cgroup: string): void {
    this.live.set(id, { cgroup, memory: { owned: 0, swapped: 0 } });
  }

  remove(id: string): void {
    this.live.delete(id);
  }

  /** Last measured memory of a sandbox; zero when it is not (or no longer) measured. */
  memoryOf(id: string): Memory {
    return this.live.get(id)?.memory ?? { owned: 0, swapped: 0 };
  }

  /** Measures one sandbox now: what it owns, and its part of the pool, in bytes. */
  measure(id: string): { owned: number; pool: number } {
    const entry = this.live.get(id);
    if (entry === undefined) return { owned: 0, pool: 0 };
    entry.memory = this.meter.measure(pidsOf(entry.cgroup));
    return { owned: entry.memory.owned, pool: this.partOfPool(id) };
  }

  /**
   * What of the pool is a sandbox's: the bytes that its slots take, as the store counts them (an object that several
   * slots name is divided among them), and an equal part of the rest: tables, indexes, pages not yet told apart and
   * free space. Over all sandboxes the parts add up to the pool.
   */
  private partOfPool(id: string): number {
    const { pool, status } = this.latest;
    const stored = new Map(status?.sandboxes.map((sandbox) => [sandbox.id, sandbox.storedBytes]));
    const claimed = [...stored.values()].reduce((sum, bytes) => sum + bytes, 0);
    return (stored.get(id) ?? 0) + Math.max(0, pool - claimed) / Math.max(1, this.live.size);
  }

  /** Measures all sandboxes once; agents get their turn between two of them. */
  private async round(): Promise<void> {
    const sum = { owned: 0, swapped: 0, swapCache: 0 };
    for (const [id, entry] of [...this.live]) {
      await nextTurn();
      if (!this.live.has(id)) continue;
      entry.memory = this.meter.measure(pidsOf(entry.cgroup));
      sum.owned += entry.memory.owned;
      sum.swapped += entry.memory.swapped;
      if (this.system.name !== 'none') sum.swapCache += unmappedSwapCache(entry.cgroup);
    }
    const { pool, base, overhead } = this.latest;
    this.samples.push({ at: Date.now(), ...sum, pool, base, overhead });
  }

  /** An exception of a timer would end the process before it has cleaned up: it waits for `check`. */
  private sample(): void {
    this.sampling ??= this.round()
      .catch((error: unknown) => {
        this.failure ??= error;
      })
      .finally(() => {
        this.sampling = null;
      });
  }

  private ask(): void {
    this.asking ??= this.system
      .pools()
      .then((pools) => {
        this.latest = pools;
        const slots = (status: Status | null): number => status?.pager.usedSlots ?? -1;
        if (slots(pools.status) > slots(this.fullest)) this.fullest = pools.status;
      })
      .catch((error: unknown) => {
        this.failure ??= error;
      })
      .finally(() => {
        this.asking = null;
      });
  }
}
