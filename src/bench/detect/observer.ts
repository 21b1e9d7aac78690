import type { TelemetrySink, Traffic } from '../../telemetry/events.js';
import { endpointKey } from '../../telemetry/endpoints.js';
import { monotonicMs } from '../../schedule/clock.js';
import { PhaseWatch } from '../../telemetry/phase-watch.js';
import type { Probes } from '../../telemetry/probes.js';
import { DEFAULT_POLICY } from '../../policy/defaults.js';
import { Timeline } from './timeline.js';

/** As in the product (controller/following.ts). */
const POLL_MS = 50;

/** What a service does to find out phases, without a pager: the same probes, watch and policy. It keeps what it was told. */
export class Observer implements TelemetrySink {
  readonly timelines = new Map<number, Timeline>();
  private readonly watch: PhaseWatch;
  private readonly pids = new Map<number, Set<number>>();
  private readonly timer: NodeJS.Timeout;
  private readonly poll = (): void => void this.probes.poll(this);

  constructor(private readonly probes: Probes) {
    this.watch = new PhaseWatch({
      ...{ probes, poll: this.poll, limits: DEFAULT_POLICY.detect },
      pids: (tag) => this.pids.get(tag) ?? [],
      onPhase: (tag, phase) => this.timelines.get(tag)?.change(monotonicMs(), phase),
    });
    this.timer = setInterval(this.poll, POLL_MS);
    probes.onNews(this.poll);
  }

  /** Whether the probes that run suffice. */
  get able(): boolean {
    return this.watch.able;
  }

  model(url: URL): void {
    this.probes.addEndpoint(endpointKey(url.hostname, Number(url.port)));
  }

  /** `pids`: its processes so far. */
  add(tag: number, pids: readonly number[]): void {
    this.pids.set(tag, new Set(pids));
    for (const pid of pids) this.probes.track(pid, tag);
    this.timelines.set(tag, new Timeline(monotonicMs(), 'unknown'));
    this.watch.add(tag);
  }

  close(): void {
    clearInterval(this.timer);
    this.watch.close();
  }

  fault(): void {}

  fork(tag: number, _parentPid: number, childPid: number, timeNs: number): void {
    this.pids.get(tag)?.add(childPid);
    this.watch.started(tag, timeNs);
  }

  exec(tag: number, _pid: number, _comm: string, timeNs: number): void {
    this.watch.started(tag, timeNs);
  }

  entered(tag: number, pid: number, timeNs: number): void {
    this.pids.get(tag)?.add(pid);
    this.watch.entered(tag, pid, timeNs);
  }

  exit(tag: number, pid: number, timeNs: number): void {
    this.pids.get(tag)?.delete(pid);
    this.watch.exited(tag, pid, timeNs);
  }

  traffic(tag: number, traffic: Traffic, timeNs: number): void {
    this.watch.traffic(tag, traffic, timeNs);
  }

  closed(tag: number, connection: number, timeNs: number): void {
    this.watch.closed(tag, connection, timeNs);
  }
}
