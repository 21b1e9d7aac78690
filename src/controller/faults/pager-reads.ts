import type { Pager } from '../../pager/client.js';
import type { PagerInfo } from '../../pager/protocol.js';
import type { DemandFaults } from './demand-faults.js';
import { probesFaults, readsOf, type FaultSource } from './fault-source.js';

/** Has demand faults told by what the pager reads, where no probes of page faults run and every fault asks the pager. */
export class PagerReads {
  constructor(
    private readonly pager: Pager,
    private readonly source: FaultSource,
    private readonly demand: DemandFaults,
  ) {}

  /** There is another pager, whose log is another, or another tier before its device. */
  async renew(tier: PagerInfo['tier']): Promise<void> {
    const wanted = tier === 'direct' && !probesFaults(this.source.probes);
    this.demand.follow(wanted ? await readsOf(this.pager, this.source.warnings) : null);
  }

  get warnings(): string[] {
    const { reads, warnings } = this.source;
    if (reads === null || this.demand.able) return warnings;
    return [...warnings, 'what tools wait for is told by page tables alone since the tier was changed'];
  }
}
