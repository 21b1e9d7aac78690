import { isDeepStrictEqual } from 'node:util';
import { AgentZipError } from '../errors.js';
import type { Policy } from './policy.js';

/** What holds until AgentZip is started anew: files and sockets that are open, and what the pager was started with. */
const FIXED = [
  ...['paths', 'pager', 'encoding.level', 'detect.faults', 'hosts', 'server.socketMode', 'server.group'],
  'dashboard',
];

/** Of those, what can change all the same. */
const LIVE = ['pager.tier'];

/** Keys are paths, as `pageout.retries`. */
export interface PolicyChange {
  changed: string[];
  /** Differ, and can not change while AgentZip runs. */
  kept: string[];
}

const isFixed = (section: string, key: string): boolean =>
  !LIVE.includes(`${section}.${key}`) && (FIXED.includes(section) || FIXED.includes(`${section}.${key}`));

/**
 * The policy of a running AgentZip. Its sections stay the same objects for as long as it runs, and their values are replaced: whoever
 * holds the policy or a section of it, and does not copy values, works with what holds now.
 */
export class LivePolicy {
  readonly current: Policy;
  /** Counts changes. */
  generation = 0;
  /** When the policy that holds was read, Unix ms. */
  loadedAt = Date.now();
  /** Why the file as it stands now was refused; null: it was not. */
  refused: AgentZipError | null = null;
  /** Keys that differ in the file, and can not change while AgentZip runs. */
  kept: string[] = [];
  /** What can fail of a change, before any of it holds: throwing refuses it. */
  prepare: (next: Policy) => void = () => {};
  private readonly listeners: ((changed: readonly string[]) => void)[] = [];

  constructor(
    policy: Policy,
    /** Where it was read; null: it was not. */
    readonly file: string | null = null,
  ) {
    this.current = structuredClone(policy);
  }

  /** Is told of the keys of each change once they hold. */
  onChange(listener: (changed: readonly string[]) => void): void {
    this.listeners.push(listener);
  }

  /**
   * Reads the policy anew. A policy that can not be taken is refused as a whole, and said why: the old one holds. Throws what
   * `load` throws.
   */
  reload(load: () => Policy): PolicyChange {
    try {
      const next = load();
      this.prepare(next);
      this.refused = null;
      this.loadedAt = Date.now();
      const change = this.apply(next);
      this.kept = change.kept;
      return change;
    } catch (error) {
      if (error instanceof AgentZipError) this.refused = error;
      throw error;
    }
  }

  /** Takes over what can change. A key at a time is compared, so that the change can be told. */
  apply(next: Policy): PolicyChange {
    const change: PolicyChange = { changed: [], kept: [] };
    for (const [section, value] of Object.entries(structuredClone(next))) {
      const now = this.current[section as keyof Policy];
      if (typeof now !== 'object' || Array.isArray(now)) {
        if (isDeepStrictEqual(now, value)) continue;
        Object.assign(this.current, { [section]: value });
        change.changed.push(section);
        continue;
      }
      for (const [key, inner] of Object.entries(value as object)) {
        if (isDeepStrictEqual(now[key as keyof typeof now], inner)) continue;
        const fixed = isFixed(section, key);
        (fixed ? change.kept : change.changed).push(`${section}.${key}`);
        if (!fixed) Object.assign(now, { [key]: inner });
      }
    }
    if (change.changed.length > 0) {
      this.generation++;
      for (const listener of this.listeners) listener(change.changed);
    }
    return change;
  }
}
