import { explain } from '../../errors.js';
import type { Pager } from '../../pager/client.js';
import type { DemandReads } from '../../pager/protocol.js';
import type { Policy } from '../../policy/policy.js';
import { FAULT_PROGRAMS } from '../../telemetry/attach.js';
import type { Probes } from '../../telemetry/probes.js';
import type { Status } from '../api.js';

/** What tells which pages tools had to wait for. */
export interface FaultSource {
  probes: Probes;
  /** Null: the pager does not tell, or the probes of page faults do. */
  reads: DemandReads | null;
  warnings: string[];
}

/** The reads of the pager that runs now; null, with a warning, when it does not tell. */
export async function readsOf(pager: Pager, warnings: string[]): Promise<DemandReads | null> {
  let reason = 'it is older; drain and start again to have it replaced';
  try {
    const reads = await pager.demandReads();
    if (reads !== null) return reads;
  } catch (error) {
    reason = explain(error);
  }
  warnings.push(`the pager does not tell what is read on demand: ${reason}`);
  return null;
}

const probesFaults = ({ attached }: Probes): boolean => attached.includes(FAULT_PROGRAMS[0]);

/**
 * Has the pager's reads tell, or the probes of page faults: those when the policy wants them, or the pager does not tell; the reads
 * also where no page fault can be probed.
 */
export async function chooseFaultSource(
  pager: Pager,
  probes: Probes,
  { faults }: Policy['detect'],
): Promise<FaultSource> {
  const warnings: string[] = [...pager.warnings];
  if (faults === 'probes' && probes.watchFaults()) return { probes, reads: null, warnings };
  const reads = await readsOf(pager, warnings);
  if (reads === null) probes.watchFaults();
  else if (faults === 'reads') probes.ignoreFaults();
  return { probes, reads, warnings };
}

export function seenBy(probes: Probes, reads: { able: boolean }): Status['probes']['faults'] {
  if (reads.able) return 'reads';
  return probesFaults(probes) ? 'probes' : 'none';
}
