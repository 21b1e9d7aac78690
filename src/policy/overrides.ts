import type { Override, Policy } from './policy.js';

/** Of a sandbox, what overrides match. */
export interface Whose {
  sandbox: string;
  template?: string;
  tenant?: string;
}

/** `*` stands for any characters, `?` for one. Linear in both lengths, whatever the pattern. */
export function globMatches(pattern: string, text: string): boolean {
  let [p, t, star, resume] = [0, 0, -1, 0];
  while (t < text.length) {
    if (pattern[p] === '*') [star, resume, p] = [p, t, p + 1];
    else if (p < pattern.length && (pattern[p] === '?' || pattern[p] === text[t])) [p, t] = [p + 1, t + 1];
    else if (star >= 0) [p, t, resume] = [star + 1, resume + 1, resume + 1];
    else return false;
  }
  while (pattern[p] === '*') p++;
  return p === pattern.length;
}

/** Every pattern must match; what a sandbox does not name matches none. */
export const matches = ({ match }: Override, whose: Whose): boolean =>
  Object.entries(match).every(([key, pattern]) => {
    const name = whose[key as keyof Whose];
    return name !== undefined && globMatches(pattern, name);
  });

export const matching = ({ overrides }: Policy, whose: Whose): Override[] =>
  overrides.filter((override) => matches(override, whose));

/** The policy for one sandbox: of what several overrides set, the last in the file counts. */
export function policyFor(policy: Policy, whose: Whose): Policy {
  const found = matching(policy, whose);
  if (found.length === 0) return policy;
  const own = { ...policy };
  for (const { set } of found) {
    for (const [section, value] of Object.entries(set)) {
      const before = own[section as keyof Policy];
      const merged = typeof before === 'object' ? { ...before, ...(value as object) } : value;
      Object.assign(own, { [section]: merged });
    }
  }
  return own;
}
