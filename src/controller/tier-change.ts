import { AgentZipError, explain } from '../errors.js';
import type { Context } from './context.js';
import type { DemandFaults } from './faults/demand-faults.js';
import type { FaultSourceKeeper } from './faults/fault-source-keeper.js';
import type { Following } from './sandboxes/following.js';
import type { WindowOpener } from './windows/window-opener.js';
import type { WindowRunner } from './windows/window-runner.js';

/** What moves pages of sandboxes, or knows where they are. */
export interface Movers {
  runner: Pick<WindowRunner, 'stop'>;
  opener: Pick<WindowOpener, 'useAll'>;
  demand: Pick<DemandFaults, 'muted' | 'close'>;
  faults: Pick<FaultSourceKeeper, 'renew'>;
  following: Pick<Following, 'poll'>;
  /** Waits for what is going on in every sandbox. */
  idle(): Promise<void>;
}

/** Follows `pager.tier` of the policy: has the pager put another tier before its device while sandboxes run. */
export class TierChange {
  /** Why the tier is not what the policy's file says; null: it is. */
  failure: AgentZipError | null = null;
  private running: Promise<void> | null = null;
  private closed = false;

  constructor(
    private readonly context: Context,
    private readonly movers: Movers,
  ) {}

  /** While it is true no window may open. */
  get underWay(): boolean {
    return this.running !== null;
  }

  /** The policy may say something else now. */
  follow(): void {
    const { policies, policy, info } = this.context;
    if (policies.dryRun || this.closed || policy.pager.tier === info.tier) return;
    this.running ??= this.run().finally(() => {
      this.running = null;
      this.resume();
    });
  }

  /** Waits for a change that is under way, however it ends. */
  async settled(): Promise<void> {
    await this.running;
  }

  /** What is under way the pager brings to its end. */
  close(): void {
    this.closed = true;
  }

  private async run(): Promise<void> {
    const { policy, info } = this.context;
    this.failure = null;
    while (policy.pager.tier !== info.tier && !this.closed) {
      const wanted = policy.pager.tier;
      try {
        await this.halt();
        await this.to(wanted);
      } catch (error) {
        this.fail(wanted, error);
      }
    }
  }

  private async to(wanted: Context['info']['tier']): Promise<void> {
    const { pager, info, policy } = this.context;
    const { poolPercent } = policy.pager.zswap;
    let failure: unknown;
    await pager
      .request('changeTier', { tier: wanted, zswap: { poolPercent } })
      .catch((error: unknown) => (failure = error));
    // Also one that failed has paged everything in, unless it was refused.
    Object.assign(info, await pager.request('hello', {}));
    await this.changed();
    if (failure !== undefined) throw failure;
  }

  /** Ends every window. */
  private async halt(): Promise<void> {
    for (const sandbox of this.context.registry.all()) sandbox.endWindow('shutdown');
    // What swapoff reads no tool waits for.
    this.movers.demand.muted = true;
    await this.movers.idle();
  }

  /** All pages are in memory, and slots of swap have another meaning. What was learnt of use stays. */
  private async changed(): Promise<void> {
    const { registry, owners, info } = this.context;
    const { runner, demand, faults } = this.movers;
    owners.clear();
    for (const sandbox of registry.all()) {
      sandbox.soleSlots.clear();
      for (const member of sandbox.members.values()) member.cameIn();
    }
    runner.stop();
    registry.tierChanged(info.tier);
    demand.close();
    await faults.renew();
  }

  /** Waits that go on may be used again. */
  private resume(): void {
    const { following, demand, opener } = this.movers;
    following.poll();
    demand.muted = false;
    opener.useAll();
  }

  /** The policy says what there is, so that reading it anew is another attempt. */
  private fail(wanted: Context['info']['tier'], error: unknown): void {
    const { policy, info, events } = this.context;
    if (this.closed) return;
    if (policy.pager.tier === wanted) policy.pager.tier = info.tier;
    this.failure = new AgentZipError('AZ_TIER_CHANGE', { tier: info.tier, wanted, reason: explain(error) });
    events.onFailure(this.failure);
  }
}
