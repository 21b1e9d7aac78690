import { PAGE } from '../../native/libc.js';
import { explain } from '../../errors.js';
import { isAlive } from '../../memory/process.js';
import type { Probes } from '../../telemetry/probes.js';
import type { TelemetrySink, Traffic } from '../../telemetry/events.js';
import type { PhaseWatch } from '../../telemetry/phase-watch.js';
import type { DemandFaults, OnDemand } from '../faults/demand-faults.js';
import type { Forerunner } from '../prefetch/forerunner.js';
import type { Member } from './member.js';
import type { Registry, Watcher } from './registry.js';
import type { Sandbox } from './sandbox.js';
import { isDemand } from '../prefetch/usage.js';

/** At 100 000 faults a second the 4 MiB ring holds far more than what comes in between two polls. */
const POLL_MS = 50;
/** While a tool has just started or waited for a page, for so long. */
const QUICK_POLL_MS = 3;
const HURRY_MS = 200;

/** Has the probes watch processes. A process they can not take is followed by looking for it, as without probes. */
export class ProbeWatcher implements Watcher {
  readonly warnings = new Set<string>();
  /** It could watch all processes it was given. */
  get complete(): boolean {
    return this.warnings.size === 0;
  }

  constructor(private readonly probes: Probes) {}

  track(pid: number, tag: number): number | null {
    const before = this.probes.tagOf(pid);
    try {
      this.probes.track(pid, tag);
    } catch (error) {
      // The text names the limit, after the pid: one warning for all.
      this.warnings.add(`some processes are not watched: ${explain(error).replace(/pid \d+ /, '')}`);
    }
    return before;
  }

  untrack(pid: number): void {
    this.probes.untrack(pid);
  }

  retire(tag: number): void {
    for (const pid of this.probes.tracked(tag)) this.probes.untrack(pid);
  }
}

/**
 * Follows the processes of sandboxes through what the probes report, and takes as evidence of use what they waited for: by the
 * pager's reads, or by their faults where those are probed.
 */
export class Following implements TelemetrySink {
  private readonly timer: NodeJS.Timeout;
  /** Is told what bears on phases. */
  watch: PhaseWatch | null = null;
  private quick: NodeJS.Timeout | null = null;
  private hurryUntil = 0;

  constructor(
    private readonly probes: Probes,
    private readonly registry: Registry,
    /** The last process of a sandbox has ended. */
    private readonly onVacant: (sandbox: Sandbox) => void,
    /** Told of pages that a tool had to wait for; `go` after the last one of a poll. */
    private readonly forerunner: Pick<Forerunner, 'demanded' | 'go'> | null = null,
    private readonly faults: Pick<DemandFaults, 'poll'> | null = null,
  ) {
    this.timer = setInterval(() => this.poll(), POLL_MS).unref();
  }

  /** A tool starts, or waits for pages: polls more often for a while, so as to keep ahead of it. */
  hurry(): void {
    this.hurryUntil = performance.now() + HURRY_MS;
    this.quick ??= setInterval(() => {
      if (performance.now() > this.hurryUntil) this.relax();
      else this.poll();
    }, QUICK_POLL_MS).unref();
  }

  private relax(): void {
    clearInterval(this.quick ?? undefined);
    this.quick = null;
  }

  /** Takes what has been reported so far. */
  poll(): void {
    this.probes.poll(this);
    // A fault that is under way is soon over, and tells then.
    if (this.faults?.poll(this.onDemand) === true) this.hurry();
    this.forerunner?.go();
  }

  /**
   * Are all living processes that descend from the sandbox's its members? Only the probes can tell, and only as long as
   * they were told of every fork.
   */
  knowsLineage(sandbox: Sandbox): boolean {
    this.poll();
    const { attached } = this.probes;
    const complete = ['process_fork', 'process_exit'].every((name) => attached.includes(name));
    if (!complete || sandbox.escaped || this.probes.stats().droppedBy.trackedFull > 0) return false;
    return this.probes.tracked(sandbox.tag).every((pid) => sandbox.members.has(pid));
  }

  fault(tag: number, pid: number, address: number): void {
    const sandbox = this.registry.tagged(tag);
    const member = sandbox?.members.get(pid);
    if (sandbox === undefined || member === undefined) return;
    const page = Math.floor(address / PAGE);
    if (!member.isOut(page)) return;
    const mark = member.usage.mark(page);
    // A page that was put back faults at its first write: it is wanted, and was not waited for.
    if (member.usage.used(page) && isDemand(mark)) this.waited(sandbox, member, page);
  }

  /** A tool has waited for a page, whoever found it out. */
  readonly onDemand: OnDemand = (sandbox, member, page) => {
    if (member.usage.demanded(page)) this.waited(sandbox, member, page);
  };

  private waited(sandbox: Sandbox, member: Member, page: number): void {
    sandbox.demandFaults++;
    this.forerunner?.demanded(sandbox, member, page);
    this.hurry();
  }

  fork(tag: number, _parentPid: number, childPid: number, timeNs: number): void {
    const sandbox = this.registry.tagged(tag);
    if (sandbox === undefined) return;
    sandbox.forks++;
    this.registry.join(sandbox, childPid);
    this.watch?.started(tag, timeNs);
  }

  exec(tag: number, pid: number, program: string, timeNs: number): void {
    this.registry.tagged(tag)?.tools.started(program);
    this.registry.tagged(tag)?.members.get(pid)?.replaced();
    this.watch?.started(tag, timeNs);
  }

  entered(tag: number, pid: number, timeNs: number): void {
    const sandbox = this.registry.tagged(tag);
    if (sandbox !== undefined) this.registry.join(sandbox, pid);
    this.watch?.entered(tag, pid, timeNs);
  }

  traffic(tag: number, traffic: Traffic, timeNs: number): void {
    this.watch?.traffic(tag, traffic, timeNs);
  }

  closed(tag: number, connection: number, timeNs: number): void {
    this.watch?.closed(tag, connection, timeNs);
  }

  exit(tag: number, pid: number, timeNs: number): void {
    this.watch?.exited(tag, pid, timeNs);
    const sandbox = this.registry.tagged(tag);
    const member = sandbox?.members.get(pid);
    // The event may be older than the process that has the pid now.
    if (sandbox === undefined || member === undefined || isAlive(member.process)) return;
    this.registry.leave(sandbox, pid);
    if (sandbox.members.size === 0) this.onVacant(sandbox);
  }

  close(): void {
    clearInterval(this.timer);
    this.relax();
  }
}
