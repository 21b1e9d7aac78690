import type { Policy } from '../../policy/policy.js';

/** What decides with whom a sandbox may share stored pages. */
export interface Origin {
  id: string;
  tenant?: string;
  template?: string;
}

/**
 * Name of a sandbox's owner: its tenant, or itself when the host named none. Parts are encoded so that neither `/` nor
 * `:` in a name given by a host can make two origins look alike.
 */
const ownerOf = ({ id, tenant }: Origin): string =>
  tenant === undefined ? `:${encodeURIComponent(id)}` : encodeURIComponent(tenant);

/** Trust domain of a sandbox. A sandbox without a template shares, in a domain by template, with nobody. */
export function trustDomain(origin: Origin, rule: Policy['trust']['domain']): string {
  const alone = `:${encodeURIComponent(origin.id)}`;
  if (rule === 'sandbox') return alone;
  if (rule === 'tenant') return ownerOf(origin);
  return origin.template === undefined ? alone : `${ownerOf(origin)}/${encodeURIComponent(origin.template)}`;
}

/** May the sandbox's pages be stored as deltas against the template's? */
export const mayUseTemplate = (
  origin: Origin,
  template: { tenant: string | null; public: boolean },
): boolean => template.public || (template.tenant !== null && template.tenant === origin.tenant);
