import { policyFor, type Whose } from '../policy/overrides.js';
import type { LivePolicy } from '../policy/live.js';
import type { Policy } from '../policy/policy.js';
import type { Sandbox } from './sandboxes/sandbox.js';

/** Does the mode page anything out? */
export const compresses = (mode: Policy['mode']): boolean => mode === 'proactive' || mode === 'pressure';

export const whoseOf = ({ id, spec }: Pick<Sandbox, 'id' | 'spec'>): Whose => ({
  sandbox: id,
  template: spec.template,
  tenant: spec.tenant,
});

/** What holds for each sandbox, now. */
export class Policies {
  private readonly known = new WeakMap<object, { generation: number; policy: Policy }>();

  constructor(
    readonly live: LivePolicy,
    /** Nothing is done, whatever the policy says: see `agentzip run --dry-run`. */
    readonly dryRun = false,
  ) {}

  of(sandbox: Sandbox): Policy {
    const { current, generation } = this.live;
    if (current.overrides.length === 0) return current;
    const known = this.known.get(sandbox);
    if (known?.generation === generation) return known.policy;
    const policy = policyFor(current, whoseOf(sandbox));
    this.known.set(sandbox, { generation, policy });
    return policy;
  }

  /** Of one that is not registered yet. */
  for(whose: Whose): Policy {
    return policyFor(this.live.current, whose);
  }

  /** May its pages go out at all? */
  acts(sandbox: Sandbox): boolean {
    return !this.dryRun && compresses(this.of(sandbox).mode);
  }
}
