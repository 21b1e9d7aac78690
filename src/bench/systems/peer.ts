import type { HostEvent, Pools, System, SystemCpu, SystemName } from '../system.js';
import { HostChanges } from './host-changes.js';
import { readKnob } from './knobs.js';
import type { Part } from './part.js';
import { Reclaimer, type Waiting } from './reclaimer.js';

const DAMON_STATE = '/sys/kernel/mm/damon/admin/kdamonds/0/state';

/** A system of the kernel's own means that AgentZip is compared with, put together from parts. */
export class PeerSystem implements System {
  readonly launcher: readonly string[];
  private readonly changes = new HostChanges();
  private readonly reclaimer = new Reclaimer();
  private readonly parts: readonly Part[];
  private readonly sandboxes = new Map<string, Waiting>();

  constructor(
    readonly name: SystemName,
    parts: (reclaimer: Reclaimer) => Part[],
  ) {
    this.parts = parts(this.reclaimer);
    this.launcher = this.parts.flatMap(({ launcher }) => launcher ?? []);
  }

  /** AZ_WORKLOAD_FAILED when the kernel refuses something; `stop` undoes what was done until then. */
  async start(): Promise<void> {
    for (const part of this.parts) await part.start?.(this.changes);
  }

  async addTemplate(_id: string, _tenant: string, pid: number): Promise<void> {
    for (const part of this.parts) part.addTemplate?.(pid);
  }

  async addSandbox(id: string, _template: string, _tenant: string, cgroup: string): Promise<void> {
    const sandbox = this.reclaimer.add(cgroup);
    this.sandboxes.set(id, sandbox);
    for (const part of this.parts) part.addSandbox?.(sandbox);
  }

  /** Returns at once: these systems work beside the wait, and do nothing when a tool begins. */
  async event(id: string, { type }: HostEvent): Promise<void> {
    const sandbox = this.sandboxes.get(id);
    if (sandbox === undefined) return;
    if (type === 'llm_request_sent') {
      sandbox.begin();
      for (const part of this.parts) part.waitBegan?.(sandbox);
    } else {
      // Also a tool that begins without a first token having been told.
      const waited = sandbox.lasts();
      sandbox.end();
      if (waited) for (const part of this.parts) part.waitEnded?.(sandbox);
    }
  }

  async account(): Promise<null> {
    return null;
  }

  async removeSandbox(id: string): Promise<void> {
    const sandbox = this.sandboxes.get(id);
    if (sandbox === undefined) return;
    sandbox.end();
    this.sandboxes.delete(id);
    for (const part of this.parts) part.removeSandbox?.(sandbox);
  }

  async pools(): Promise<Pools> {
    this.reclaimer.check();
    const sum: Pools = { pool: 0, base: 0, overhead: 0, status: null };
    for (const part of this.parts) {
      const { pool = 0, base = 0, overhead = 0 } = (await part.pools?.()) ?? {};
      sum.pool += pool;
      sum.base += base;
      sum.overhead += overhead;
    }
    return sum;
  }

  /** What the kernel's threads take (ksmd, kswapd) is the kernel's. */
  async cpu(): Promise<SystemCpu> {
    return { controller: this.reclaimer.cpuSeconds, pager: 0 };
  }

  async stop(): Promise<void> {
    await this.reclaimer.stop();
    for (const part of this.parts) await part.stop?.();
    await this.changes.undo();
  }

  get notes(): readonly string[] {
    const notes = this.parts.flatMap((part) => part.notes?.() ?? []);
    if (!this.parts.some(({ swaps }) => swaps) || readKnob(DAMON_STATE) !== 'on') return notes;
    return [
      ...notes,
      'DAMON is at work on this host: with any swap on, the kernel pages idle memory of the whole host out too, ' +
        'so the pool holds pages that are no sandbox’s',
    ];
  }
}
