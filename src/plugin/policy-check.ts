import { writeFileSync } from 'node:fs';
import { AgentZipError } from '../errors.js';
import { policyExample } from '../policy/reference.js';
import { loadPolicy, redacted } from '../policy/load.js';
import type { Policy } from '../policy/policy.js';

/** The policy that a file gives, fit to be shown. Errors: AZ_POLICY_READ, AZ_POLICY_SYNTAX, AZ_POLICY_INVALID. */
export const checkPolicy = (file: string): Policy => redacted(loadPolicy(file));

export { policyExample };

/** Writes a policy file with every key, its default and what it means; never over another file. Errors: AZ_POLICY_WRITE. */
export function writePolicy(file: string): void {
  try {
    writeFileSync(file, policyExample(), { flag: 'wx' });
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new AgentZipError('AZ_POLICY_WRITE', { file, reason }, { cause: error });
  }
}
