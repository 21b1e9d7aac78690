import { loadPolicy, redacted } from '../policy/load.js';
import type { Policy } from '../policy/policy.js';

/** The policy that a file gives, fit to be shown. Errors: AZ_POLICY_READ, AZ_POLICY_SYNTAX, AZ_POLICY_INVALID. */
export const checkPolicy = (file: string): Policy => redacted(loadPolicy(file));
