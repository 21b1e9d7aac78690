import { AgentZipError } from '../../errors.js';
import { countStore } from '../accounting.js';
import { NO_SWAP_TYPE, type PagerInfo, type Requests } from '../protocol.js';
import type { Charge } from '../service.js';
import type { StandbyKeeper } from '../succession/standby-keeper.js';
import { availableBytes, checkRoom } from './room.js';
import { isSwap } from './swap-area.js';
import { changeTier, checkTier, hold } from './tier-change.js';
import type { TierName } from './tier.js';

type Request = Requests['changeTier']['request'];

/** Which tier stands before the device of a pager that serves, and how it becomes another. */
export class TierKeeper {
  private changing: { to: TierName; done: Promise<void> } | null = null;

  constructor(
    private readonly charge: Charge,
    /** What the pager says of itself; it is changed with the tier. */
    private readonly info: PagerInfo,
    private readonly standbys: Pick<StandbyKeeper, 'changes' | 'swapIs'>,
    private readonly changed: (tier: TierName) => void,
  ) {}

  get underWay(): boolean {
    return this.changing !== null;
  }

  /** Resolves when no tier is being changed. */
  async settled(): Promise<void> {
    await this.changing?.done.catch(() => {});
  }

  /** AZ_DRAIN_MEMORY when what is out would not fit into memory. */
  checkRoom(): void {
    const { tier, engine } = this.charge;
    if (!isSwap(tier.device)) return;
    checkRoom(countStore(engine.tables).usedSlots + tier.ownPages(), availableBytes());
  }

  /** See Requests.changeTier. Who asks twice waits for the same. */
  async change({ tier: to, zswap }: Request): Promise<void> {
    const { changing, info } = this;
    if (changing?.to === to) return changing.done;
    if (changing !== null) {
      const reason = `${changing.to} is being put before the device`;
      throw new AgentZipError('AZ_PAGER_REFUSED', { request: 'changeTier', reason });
    }
    if (to === info.tier && isSwap(info.device)) return;
    checkTier(to);
    this.checkRoom();
    await this.begin(to, zswap);
  }

  /**
   * Ends what a pager that died had begun. What is swap is not known before: until then, and for good when it fails, nothing that is
   * out counts as ours.
   */
  finish(to: TierName): Promise<void> {
    this.info.swapType = NO_SWAP_TYPE;
    return this.begin(to, undefined);
  }

  private begin(to: TierName, zswap: Request['zswap']): Promise<void> {
    const done = this.putBefore(to, zswap).finally(() => (this.changing = null));
    this.changing = { to, done };
    return done;
  }

  private async putBefore(to: TierName, zswap = this.charge.options.zswap): Promise<void> {
    const { charge, info, standbys } = this;
    const { engine, frontEnd, tier: from, options, log } = charge;
    const { device } = frontEnd;
    const letGo = hold(device);
    standbys.changes(to);
    try {
      const order = [...new Set<TierName>([to, from.name, 'direct'])];
      const { tier, swapType, failure } = await changeTier({ options, engine, device, log }, order, zswap);
      charge.tier = tier;
      Object.assign(info, { tier: tier.name, device: tier.device, swapType });
      this.changed(tier.name);
      log(`tier ${tier.name} instead of ${from.name}: ${tier.device}, swap type ${swapType}`);
      if (failure !== null) throw failure;
    } finally {
      if (!isSwap(info.device)) info.swapType = NO_SWAP_TYPE;
      standbys.swapIs({ tier: info.tier, swapDevice: info.device, swapType: info.swapType });
      standbys.changes(null);
      letGo();
    }
  }
}
