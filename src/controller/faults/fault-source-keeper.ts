import type { Context } from '../context.js';
import type { DemandFaults } from './demand-faults.js';
import { chooseFaultSource, type FaultSource } from './fault-source.js';

/** Has demand faults told by what the pager reads, or by the probes of page faults, whatever pager and tier there are. */
export class FaultSourceKeeper {
  constructor(
    private readonly context: Pick<Context, 'pager' | 'policy'>,
    private source: FaultSource,
    private readonly demand: DemandFaults,
  ) {}

  /** There is another pager, whose log is another, or another tier before its device. */
  async renew(): Promise<void> {
    const { pager, policy } = this.context;
    this.source = await chooseFaultSource(pager, this.source.probes, policy.detect);
    this.demand.follow(this.source.reads);
  }

  get warnings(): string[] {
    return this.source.warnings;
  }
}
