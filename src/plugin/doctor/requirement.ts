import { readFileSync } from 'node:fs';
import { AgentZipError, type ErrorCode } from '../../errors.js';

/** Something AgentZip needs of the host (required), or is better with (optional). */
export interface Requirement {
  /** Stable name, for programs. */
  id: string;
  level: 'required' | 'optional';
  ok: boolean;
  found: string;
  needed: string;
  /** What to do when it is not ok. */
  remedy: string;
  /** The error with which AgentZip refuses to start, where there is a more exact one than AZ_DOCTOR. */
  error?: { code: ErrorCode; details: Record<string, string | number> };
}

/** Contents of a file of /proc or /sys, trimmed; null when it can not be read. */
export type ReadText = (path: string) => string | null;

export const readText: ReadText = (path) => {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return null;
  }
};

/** True when version `found` is `needed` or later; both as dotted numbers, of which the first two or three count. */
export function atLeast(found: string, needed: string): boolean {
  const numbers = (text: string): number[] => (text.match(/\d+/g) ?? []).map(Number);
  const a = numbers(found);
  for (const [i, part] of numbers(needed).entries()) {
    if ((a[i] ?? 0) !== part) return (a[i] ?? 0) > part;
  }
  return true;
}

/** Error and remedy of a requirement that has a code of its own. */
export function refusal(
  code: ErrorCode,
  details: Record<string, string | number>,
): Pick<Requirement, 'error' | 'remedy'> {
  return { error: { code, details }, remedy: new AgentZipError(code, details).remedy };
}
