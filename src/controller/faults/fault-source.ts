import { explain } from '../../errors.js';
import type { Pager } from '../../pager/client.js';
import type { DemandReads } from '../../pager/protocol.js';
import type { Policy } from '../../policy/policy.js';
import { FAULT_PROGRAMS, Probes } from '../../telemetry/probes.js';
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

export const probesFaults = ({ attached }: Probes): boolean => attached.includes(FAULT_PROGRAMS[0]);

/** Loads the probes: those of page faults only when the policy wants them or the pager does not tell. Where they do not run, it does. */
export async function openFaultSource(pager: Pager, { faults }: Policy['detect']): Promise<FaultSource> {
  const warnings: string[] = [...pager.warnings];
  const reads = faults === 'reads' ? await readsOf(pager, warnings) : null;
  const probes = Probes.load({ without: reads === null ? [] : FAULT_PROGRAMS });
  if (reads !== null || probesFaults(probes)) return { probes, reads, warnings };
  return { probes, reads: faults === 'probes' ? await readsOf(pager, warnings) : null, warnings };
}

export function seenBy(probes: Probes, reads: { able: boolean }): Status['probes']['faults'] {
  if (reads.able) return 'reads';
  return probesFaults(probes) ? 'probes' : 'none';
}
