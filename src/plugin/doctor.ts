import { AgentZipError } from '../errors.js';
import { DEFAULT_POLICY } from '../policy/defaults.js';
import type { Policy } from '../policy/policy.js';
import { devices } from './doctor/devices.js';
import { kernel, processMadviseWorks } from './doctor/kernel.js';
import { platforms, type Platform } from './doctor/platforms.js';
import { privileges } from './doctor/privileges.js';
import { probes } from './doctor/probes.js';
import { programs, python } from './doctor/programs.js';
import { readText, type Requirement } from './doctor/requirement.js';
import { swapAndReclaim } from './doctor/swap.js';
import { tiers } from './doctor/tiers.js';

export { doctorTable } from './doctor/table.js';

export interface DoctorReport {
  /** Every required thing is there. */
  ok: boolean;
  requirements: Requirement[];
  /** Platforms whose sandboxes there may be. */
  platforms: Platform[];
}

/** What of the policy it depends on. */
export type DoctorSettings = Pick<Policy['pager'], 'frontEnd' | 'tier'>;

/** What can be told at once. */
export function quickChecks({ frontEnd, tier }: DoctorSettings): Requirement[] {
  return [
    ...privileges(readText, process.getuid?.() ?? -1),
    ...programs(),
    ...kernel(readText, process.arch),
    ...devices(frontEnd),
    ...tiers(tier),
    ...swapAndReclaim(readText, tier),
  ];
}

/** Looks at everything AgentZip needs of this host, with the policy's settings. Leaves everything as it was. */
export async function runDoctor(settings: DoctorSettings = DEFAULT_POLICY.pager): Promise<DoctorReport> {
  const requirements = [...quickChecks(settings), await processMadviseWorks(), probes(), await python()];
  return { ok: missing(requirements).length === 0, requirements, platforms: platforms() };
}

const missing = (requirements: readonly Requirement[]): Requirement[] =>
  requirements.filter(({ ok, level }) => !ok && level === 'required');

/** Errors: AZ_DOCTOR, which names all that is required and missing. */
export function refuse({ requirements }: Pick<DoctorReport, 'requirements'>): void {
  const lacking = missing(requirements).map(({ id, found }) => `${id} (${found})`);
  if (lacking.length > 0) throw new AgentZipError('AZ_DOCTOR', { missing: lacking.join(', ') });
}

/**
 * Lets AgentZip start only where it can run. Errors, for the first thing missing: AZ_NOT_ROOT, AZ_CAPABILITY_MISSING,
 * AZ_UBLK_MISSING, AZ_NBD_MISSING, AZ_FUSE_MISSING, AZ_LOOP_MISSING, AZ_ZSWAP_MISSING, AZ_ZRAM_MISSING, AZ_LIBRARY_MISSING, or AZ_DOCTOR for those without a code
 * of their own.
 */
export function requireHost(requirements: readonly Requirement[]): void {
  const [first] = missing(requirements);
  if (first?.error) throw new AgentZipError(first.error.code, first.error.details);
  refuse({ requirements: [...requirements] });
}
