import { AgentZipError } from '../../errors.js';
import { findProcesses, type Membership, type OwnProcesses, type ProcessTable } from '../../hosts/plain.js';
import { cgroupPids, resolveCgroup } from '../../memory/cgroup.js';
import { identify, isAlive, processTree, userNamespace } from '../../memory/process.js';
import type { PagerInfo } from '../../pager/protocol.js';
import type { SandboxSpec } from '../api.js';
import { Member } from './member.js';
import { Sandbox, type Finding } from './sandbox.js';
import { ZswapBypass } from './zswap-bypass.js';

/** The pager knows at most 4096 owners (src/store), one of which is nobody. */
export const MAX_SANDBOXES = 4095;
const MAX_NAME = 128;

const TABLE: ProcessTable = {
  tree: processTree,
  exists: (pid) => identify(pid) !== null,
  userNamespace,
  cgroupFolder: (name) => resolveCgroup(name),
  cgroupPids,
};

/** What watches the processes of sandboxes: the probes. */
export interface Watcher {
  /** Returns the tag that the process was watched with before; null: with none. */
  track(pid: number, tag: number): number | null;
  untrack(pid: number): void;
  /** Nothing is watched with this tag any more. */
  retire(tag: number): void;
}

export function checkName(what: string, name: string): void {
  if (name.length > 0 && name.length <= MAX_NAME && !name.includes('\0')) return;
  throw new AgentZipError('AZ_BAD_REQUEST', { what: `${what} must have 1 to ${MAX_NAME} characters` });
}

/** Every sandbox, and which process belongs to which. */
export class Registry {
  private readonly byId = new Map<string, Sandbox>();
  private readonly byTag = new Map<number, Sandbox>();
  private readonly byPid = new Map<number, Sandbox>();
  private lastTag = 0;
  private bypass: ZswapBypass;

  constructor(
    private readonly own: OwnProcesses,
    private readonly watcher: Watcher,
    tier: PagerInfo['tier'] = 'direct',
  ) {
    this.bypass = new ZswapBypass(tier);
  }

  /** Pages that go out come to another tier from now on. */
  tierChanged(tier: PagerInfo['tier']): void {
    for (const sandbox of this.all()) this.bypass.remove(sandbox);
    this.bypass = new ZswapBypass(tier);
    for (const sandbox of this.all()) this.bypass.add(sandbox);
  }

  all(): Sandbox[] {
    return [...this.byId.values()];
  }

  get(id: string): Sandbox {
    const sandbox = this.byId.get(id);
    if (sandbox === undefined) throw new AgentZipError('AZ_UNKNOWN_SANDBOX', { id });
    return sandbox;
  }

  find(id: string): Sandbox | undefined {
    return this.byId.get(id);
  }

  tagged(tag: number): Sandbox | undefined {
    return this.byTag.get(tag);
  }

  /** AZ_NO_SUCH_PROCESS, AZ_OWN_PROCESS, AZ_FOREIGN_NAMESPACE for a process that may not be looked into. */
  checkProcess(pid: number): void {
    findProcesses({ pids: [pid] }, { ...TABLE, tree: (roots) => [...roots] }, this.own);
  }

  /** Registers a sandbox with the processes it has now. Throws what {@link findProcesses} does, and AZ_PROCESS_CLAIMED. */
  add(
    id: string,
    spec: SandboxSpec,
    domain: string,
    finding: Finding | null = null,
    rule?: Sandbox['rule'],
  ): Sandbox {
    checkName('the id of a sandbox', id);
    if (spec.tenant !== undefined) checkName('a tenant', spec.tenant);
    const membership = findProcesses(spec, TABLE, this.own);
    this.refuseClaimed(membership);
    const sandbox = new Sandbox(id, spec, membership, domain, this.freeTag(), finding, rule);
    this.byId.set(id, sandbox);
    this.bypass.add(sandbox);
    this.byTag.set(sandbox.tag, sandbox);
    for (const pid of membership.first) this.join(sandbox, pid);
    this.refresh(sandbox);
    return sandbox;
  }

  remove(sandbox: Sandbox): void {
    for (const pid of [...sandbox.members.keys()]) this.leave(sandbox, pid);
    this.bypass.remove(sandbox);
    // Removed twice, it must not take the next of its name along.
    if (this.byId.get(sandbox.id) === sandbox) this.byId.delete(sandbox.id);
    if (this.byTag.get(sandbox.tag) !== sandbox) return;
    this.byTag.delete(sandbox.tag);
    this.watcher.retire(sandbox.tag);
  }

  /** Looks for its processes again: the truth, with or without probes. False when it has none left. */
  refresh(sandbox: Sandbox): boolean {
    const live = sandbox.livePids();
    const now = new Set(sandbox.membership.pids(live));
    for (const pid of sandbox.members.keys()) {
      if (now.has(pid) && live.includes(pid)) continue;
      sandbox.escaped ||= live.includes(pid);
      this.leave(sandbox, pid);
    }
    for (const pid of now) this.join(sandbox, pid);
    return sandbox.members.size > 0;
  }

  /** A process has joined, unless it is known, is ours, or belongs to another sandbox. */
  join(sandbox: Sandbox, pid: number): void {
    if (this.own.pids.includes(pid) || this.ownerOf(pid) !== undefined) return;
    const member = Member.adopt(pid);
    if (member === null) return;
    sandbox.members.set(pid, member);
    this.byPid.set(pid, sandbox);
    const before = this.watcher.track(pid, sandbox.tag);
    if (before === null || before === sandbox.tag) return;
    // Forked in one sandbox and found in another first: pages of the one may be in the other.
    const from = this.byTag.get(before);
    if (from !== undefined) from.escaped = true;
  }

  leave(sandbox: Sandbox, pid: number): void {
    const member = sandbox.members.get(pid);
    if (member === undefined) return;
    sandbox.members.delete(pid);
    this.byPid.delete(pid);
    this.watcher.untrack(pid);
    member.close();
  }

  /** Sandbox of a process; a pid that a stranger has taken over belongs to nobody. */
  ownerOf(pid: number): Sandbox | undefined {
    const sandbox = this.byPid.get(pid);
    const member = sandbox?.members.get(pid);
    if (sandbox === undefined || member === undefined || isAlive(member.process)) return sandbox;
    this.leave(sandbox, pid);
    return undefined;
  }

  private refuseClaimed(membership: Membership): void {
    for (const pid of membership.first) {
      const owner = this.ownerOf(pid);
      if (owner !== undefined) throw new AgentZipError('AZ_PROCESS_CLAIMED', { pid, owner: owner.id });
    }
  }

  /** The one that has been free for longest: what the probes still report of a removed sandbox is not the next one's. */
  private freeTag(): number {
    for (let step = 1; step <= MAX_SANDBOXES; step++) {
      const tag = ((this.lastTag + step - 1) % MAX_SANDBOXES) + 1;
      if (!this.byTag.has(tag)) return (this.lastTag = tag);
    }
    throw new AgentZipError('AZ_BAD_REQUEST', {
      what: `at most ${MAX_SANDBOXES} sandboxes can be registered`,
    });
  }
}
