import type { FoundSandbox } from './adapter.js';

/** What the policy says of all sandboxes of a platform; null: nothing. */
export interface Declared {
  mode: 'reclaim' | 'observe';
  template?: string | null;
  tenant?: string | null;
}

/** A sandbox as its platform shows it, and the policy has it. What must not be touched is not, whatever the policy says. */
export function asDeclared(
  adapter: string,
  sandbox: FoundSandbox,
  { mode, template, tenant }: Declared,
): FoundSandbox {
  const forbidden = sandbox.mode === 'observe' || mode === 'reclaim';
  return {
    ...sandbox,
    template: sandbox.template ?? template ?? undefined,
    tenant: sandbox.tenant ?? tenant ?? undefined,
    ...(forbidden ? {} : { mode: 'observe', why: `hosts.${adapter}.mode in the policy is observe` }),
  };
}
