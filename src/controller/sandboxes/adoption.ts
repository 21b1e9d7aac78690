import { AgentZipError, explain, type ErrorCode } from '../../errors.js';
import type { FoundSandbox } from '../../hosts/adapter.js';
import { templateId } from '../../hosts/names.js';
import type { SandboxSpec } from '../api.js';
import { MAX_SANDBOXES, type Registry } from './registry.js';
import type { Finding, Sandbox } from './sandbox.js';

/** Warnings kept of one look: a platform of a thousand bad sandboxes has one cause, not a thousand. */
const MOST_WARNINGS = 16;
/** It has ended between the look and now. */
const ENDED: readonly ErrorCode[] = ['AZ_NO_SUCH_PROCESS', 'AZ_NO_SUCH_CGROUP', 'AZ_UNKNOWN_SANDBOX'];

export interface AdoptionActions {
  register(id: string, spec: SandboxSpec, finding: Finding): void;
  /** Brings its pages back first, when it still lives. */
  remove(id: string): Promise<void>;
  bringBack(sandbox: Sandbox): Promise<void>;
  /** Something that was under way has ended: look again. */
  changed(host: string): void;
}

/** What came of one look at a platform. */
export interface Adopted {
  sandboxes: number;
  claimed: number;
  warnings: string[];
}

const specOf = ({ pids, cgroup, nested, template, tenant }: FoundSandbox): SandboxSpec => ({
  ...(pids !== undefined && { pids: [...pids] }),
  ...(cgroup !== undefined && { cgroup }),
  ...(nested !== undefined && { nested }),
  ...(template !== undefined && { template: templateId(template) }),
  ...(tenant !== undefined && { tenant }),
});

/** Are they the same processes of the same origin? How they are treated may change while they live. */
export const sameSandbox = (a: SandboxSpec, b: SandboxSpec): boolean =>
  JSON.stringify({ ...a, mode: undefined }) === JSON.stringify({ ...b, mode: undefined });

/**
 * Makes the registered sandboxes of a platform those that were found. What a host has registered is never touched, and
 * what goes wrong with one sandbox changes nothing for another.
 */
export class Adoption {
  /** Sandboxes that are being removed or brought back: nothing else is done to them meanwhile. */
  private readonly busy = new Set<string>();
  /** What went wrong with those, until it goes right. */
  private readonly failures = new Map<string, string>();

  constructor(
    private readonly registry: Registry,
    private readonly actions: AdoptionActions,
  ) {}

  settle(host: string, found: readonly FoundSandbox[]): Adopted {
    const warnings: string[] = [];
    const wanted = new Map<string, FoundSandbox>();
    for (const sandbox of found.slice(0, MAX_SANDBOXES)) {
      if (wanted.has(sandbox.id)) warnings.push(`${sandbox.id}: there are two of that name`);
      else wanted.set(sandbox.id, sandbox);
    }
    if (found.length > MAX_SANDBOXES) warnings.push(`only ${MAX_SANDBOXES} of ${found.length} are served`);
    for (const { id } of this.of(host)) if (!wanted.has(id)) this.remove(host, id);
    let claimed = 0;
    for (const sandbox of wanted.values()) {
      try {
        this.adopt(host, sandbox);
      } catch (error) {
        const code = error instanceof AgentZipError ? error.code : null;
        if (code === 'AZ_PROCESS_CLAIMED') claimed++;
        else if (code === null || !ENDED.includes(code)) warnings.push(`${sandbox.id}: ${explain(error)}`);
      }
    }
    const failed = [...this.failures].filter(([id]) => id.startsWith(`${host}:`));
    warnings.push(...failed.map(([id, reason]) => `${id}: ${reason}`));
    return { sandboxes: this.of(host).length, claimed, warnings: bounded(warnings) };
  }

  /** For a platform that can not be asked: lets go of those of which no process is left. */
  dropEnded(host: string): void {
    for (const sandbox of this.of(host)) if (!this.registry.refresh(sandbox)) this.remove(host, sandbox.id);
  }

  private of(host: string): Sandbox[] {
    return this.registry.all().filter(({ finding }) => finding?.host === host);
  }

  private adopt(host: string, found: FoundSandbox): void {
    if (this.busy.has(found.id)) return;
    const spec = specOf(found);
    const { why, hazards, memoryFile, reclaimCgroup } = found;
    const finding = { host, why, hazards, memoryFile, reclaimCgroup };
    const known = this.registry.find(found.id);
    if (known === undefined) this.actions.register(found.id, { ...spec, mode: found.mode }, finding);
    else if (known.finding?.host !== host) return;
    else if (!sameSandbox(known.spec, spec)) {
      // While it is paused it stays so: another registration would know nothing of that.
      if (!known.paused || !this.registry.refresh(known)) this.remove(host, found.id);
    } else this.amend(known, found.mode, finding);
  }

  private amend(sandbox: Sandbox, mode: FoundSandbox['mode'], finding: Finding): void {
    sandbox.finding = finding;
    if (sandbox.mode === mode) return;
    sandbox.mode = mode;
    // What is out when a hazard appears must not stay out.
    if (mode === 'observe') this.meanwhile(finding.host, sandbox.id, () => this.actions.bringBack(sandbox));
  }

  private remove(host: string, id: string): void {
    this.meanwhile(host, id, () => this.actions.remove(id));
  }

  private meanwhile(host: string, id: string, action: () => Promise<void>): void {
    if (this.busy.has(id)) return;
    this.busy.add(id);
    action()
      .then(() => this.failures.delete(id))
      .catch((error: unknown) => this.noteFailure(id, error))
      .finally(() => {
        this.busy.delete(id);
        this.actions.changed(host);
      });
  }

  private noteFailure(id: string, error: unknown): void {
    if (error instanceof AgentZipError && ENDED.includes(error.code)) this.failures.delete(id);
    else if (this.failures.size < MAX_SANDBOXES) this.failures.set(id, explain(error));
  }
}

function bounded(warnings: string[]): string[] {
  const more = warnings.length - MOST_WARNINGS;
  return more > 0 ? [...warnings.slice(0, MOST_WARNINGS), `and ${more} more`] : warnings;
}
