import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { AgentZipError, explain } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import type { Pager } from '../../pager/client.js';
import type { Policy } from '../../policy/policy.js';
import { readPackRegions, whileWriting, writePack, type PackPage } from '../../store/pack.js';
import { capture } from './capture.js';
import type { Member } from '../sandboxes/member.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { loadTemplate, type Template } from './template-pack.js';
import { pause, type Window } from '../windows/window.js';

/** Longest time between two looks for those that are unused. */
const MOST_DROP_MS = 60_000;
const MIB = 1 << 20;
/** Less is not worth a pack. */
const LEAST_PAGES = 256;
/** Siblings that wait too hold their page-out back for so long: what goes out before the template is there is stored without it. */
const SIBLINGS_WAIT_MS = 3000;
/** A capture that a first token interrupted is tried again, at most at every 64th wait. */
const MOST_SKIPPED = 64;
/** Part of a process that may be out when it is captured: reading brings it back. */
const MOST_OUT = 0.25;

/** Stops a capture whose window has ended. */
class Interrupted extends Error {}

interface Kind {
  key: string;
  tenant: string;
  name: string;
}

interface Kept {
  template: Template;
  bytes: number;
  /** When it was last seen that a sandbox is of it, Unix ms. */
  usedAt: number;
}

/**
 * Templates that nobody has registered, captured from the first sandbox of their kind that waits: one for a tenant and what it calls
 * its template, on disk until no sandbox is of it for a while. Sandboxes that name no tenant are of no kind.
 */
export class CapturedTemplates {
  private readonly kept = new Map<string, Kept>();
  private readonly underWay = new Map<string, Promise<void>>();
  /** Disk that those under way will take, at most. */
  private readonly reserved = new Map<string, number>();
  /** Captures that were interrupted in a row, and waits to let pass before the next. */
  private readonly interrupted = new Map<string, { times: number; skip: number }>();
  private dropping: NodeJS.Timeout | null = null;
  /** Why there is none where there could be one. */
  private readonly troubles = new Map<string, string>();

  constructor(
    private readonly pager: Pager,
    private readonly folder: string,
    private readonly policy: Pick<Policy, 'hosts' | 'trust'>,
    /** Those that are registered. */
    private readonly sandboxes: () => readonly Pick<Sandbox, 'spec'>[],
  ) {}

  get all(): Template[] {
    return [...this.kept.values()].map(({ template }) => template);
  }

  get warnings(): string[] {
    return [...this.troubles].map(([name, reason]) => `no template of ${name} is captured: ${reason}`);
  }

  baseFor(sandbox: Pick<Sandbox, 'spec'>): Template | null {
    const kind = kindOf(sandbox.spec);
    return kind === null ? null : (this.kept.get(kind.key)?.template ?? null);
  }

  /**
   * What earlier runs have left: used again, or dropped in time. A pager that outlived its controller may need it. From now on
   * looks for those that are unused.
   */
  async adopt(): Promise<void> {
    const everyMs = Math.min(this.policy.hosts.capture.unusedMs, MOST_DROP_MS);
    // A pager that is gone has let go of them.
    this.dropping ??= setInterval(() => void this.dropUnused().catch(() => {}), everyMs).unref();
    for (const path of packsIn(this.folder)) {
      try {
        const { meta } = readPackRegions(path);
        const kind = kindOf({ tenant: meta.tenant ?? undefined, template: meta.id });
        if (kind === null || this.pathOf(kind) !== path) continue;
        await this.keep(kind, path);
      } catch (error) {
        // A pager that uses it would have taken it.
        if (error instanceof AgentZipError && error.code === 'AZ_PACK_INVALID') rmSync(path, { force: true });
        else throw error;
      }
    }
  }

  /** Captures the sandbox's template unless there is one, before its pages go out. Ends with the window. */
  async before(sandbox: Sandbox, window: Window): Promise<void> {
    const kind = this.wanted(sandbox);
    if (kind === null) return;
    const other = this.underWay.get(kind.key);
    if (other !== undefined) {
      await Promise.race([other, pause(SIBLINGS_WAIT_MS, window.signal)]);
      return;
    }
    const work = this.take(kind, sandbox, window);
    this.underWay.set(kind.key, work);
    try {
      await work;
    } finally {
      this.underWay.delete(kind.key);
    }
  }

  close(): void {
    clearInterval(this.dropping ?? undefined);
  }

  /** Lets go of those that no sandbox has been of for a while. */
  async dropUnused(now = Date.now()): Promise<void> {
    for (const [key, kept] of this.unused(now)) {
      if (now - kept.usedAt >= this.policy.hosts.capture.unusedMs) await this.drop(key, kept);
    }
  }

  /** Those that no sandbox is of, the one that has been so for longest first. */
  private unused(now: number): [string, Kept][] {
    const used = new Set(this.sandboxes().map(({ spec }) => kindOf(spec)?.key));
    for (const [key, kept] of this.kept) if (used.has(key)) kept.usedAt = now;
    return [...this.kept].filter(([key]) => !used.has(key)).sort(([, a], [, b]) => a.usedAt - b.usedAt);
  }

  /** Null: it is of no kind, has its template, or none is to be captured now. */
  private wanted(sandbox: Sandbox): Kind | null {
    const { hosts, trust } = this.policy;
    // Who registers a sandbox registers its template, too.
    if (!hosts.capture.enabled || trust.domain === 'sandbox' || sandbox.finding === null) return null;
    const kind = kindOf(sandbox.spec);
    if (kind === null || this.kept.has(kind.key)) return null;
    const interrupted = this.interrupted.get(kind.key);
    return interrupted !== undefined && interrupted.skip-- > 0 ? null : kind;
  }

  private async take(kind: Kind, sandbox: Sandbox, window: Window): Promise<void> {
    const member = largest(sandbox);
    if (member === null) return;
    const bytes = (member.look?.ownedPages ?? 0) * PAGE;
    try {
      if (!(await this.makeRoom(bytes))) throw new Error('hosts.capture in the policy allows no more');
      this.reserved.set(kind.key, bytes);
      if (await this.write(kind, member, window)) await this.keep(kind, this.pathOf(kind));
      this.interrupted.delete(kind.key);
      this.troubles.delete(nameOf(kind));
    } catch (error) {
      if (error instanceof Interrupted) return this.noteInterrupted(kind.key);
      // The sandbox is served without.
      this.troubles.set(nameOf(kind), explain(error));
    } finally {
      this.reserved.delete(kind.key);
    }
  }

  /** False: the process has ended. */
  private async write(kind: Kind, member: Member, window: Window): Promise<boolean> {
    const captured = capture(member.process);
    if (captured === null) return false;
    whileWriting(this.folder, () => mkdirSync(this.folder, { recursive: true, mode: 0o700 }));
    const meta = { id: kind.name, tenant: kind.tenant, public: false };
    await writePack(this.pathOf(kind), captured.regions, whileOpen(captured.pages, window), meta);
    return true;
  }

  private async keep(kind: Kind, path: string): Promise<void> {
    const spec = { tenant: kind.tenant, pack: path };
    const template = await loadTemplate(this.pager, nameOf(kind), kind.name, spec, path);
    this.kept.set(kind.key, { template, bytes: statSync(path).size, usedAt: Date.now() });
  }

  /** Drops what is unused for longest until there is room for one more of so many bytes; false: there is none. */
  private async makeRoom(bytes: number): Promise<boolean> {
    const { templates, maxMiB } = this.policy.hosts.capture;
    const fits = (): boolean => {
      const sizes = [...[...this.kept.values()].map((kept) => kept.bytes), ...this.reserved.values()];
      const taken = sizes.reduce((sum, size) => sum + size, bytes);
      return sizes.length < templates && taken <= maxMiB * MIB;
    };
    for (const [key, kept] of this.unused(Date.now())) {
      if (fits()) break;
      await this.drop(key, kept);
    }
    return fits();
  }

  /** The pager keeps it while stored pages rest on it; then so do we. */
  private async drop(key: string, { template }: Kept): Promise<void> {
    try {
      await this.pager.request('unloadPack', { pack: template.pack });
    } catch (error) {
      if (error instanceof AgentZipError && error.code === 'AZ_PAGER_REFUSED') return;
      throw error;
    }
    this.kept.delete(key);
    rmSync(template.path, { force: true });
  }

  private noteInterrupted(key: string): void {
    const times = (this.interrupted.get(key)?.times ?? 0) + 1;
    this.interrupted.set(key, { times, skip: Math.min(2 ** times - 2, MOST_SKIPPED) });
  }

  private pathOf({ key }: Kind): string {
    return `${this.folder}/${createHash('sha256').update(key).digest('hex').slice(0, 32)}.pack`;
  }
}

function kindOf({ tenant, template: name }: Sandbox['spec']): Kind | null {
  if (tenant === undefined || name === undefined) return null;
  return { key: JSON.stringify([tenant, name]), tenant, name };
}

/** No host can give an id with an @. */
const nameOf = ({ name, tenant }: Kind): string => `${name}@${tenant}`;

/** The process with most memory of its own, if that is worth it and in memory. */
function largest({ members }: Sandbox): Member | null {
  let best: Member | null = null;
  for (const member of members.values()) {
    const { ownedPages = 0, swappedPages = 0 } = member.look ?? {};
    if (ownedPages < LEAST_PAGES || swappedPages > MOST_OUT * (ownedPages + swappedPages)) continue;
    if (ownedPages > (best?.look?.ownedPages ?? 0)) best = member;
  }
  return best;
}

async function* whileOpen(pages: AsyncIterable<PackPage>, window: Window): AsyncGenerator<PackPage> {
  for await (const page of pages) {
    if (!window.open) throw new Interrupted();
    yield page;
  }
}

function packsIn(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => name.endsWith('.pack'));
    return names.map((name) => `${folder}/${name}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
