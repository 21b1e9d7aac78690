import { monotonicMs } from '../schedule/clock.js';
import type { Traffic } from './events.js';
import { type DetectorLimits, type Phase, PhaseDetector } from './phase-detector.js';
import { TreeCpu } from './tree-cpu.js';

const NS_PER_MS = 1e6;
/** Time between looks for lost events. */
const LOSS_MS = 1000;
/** Without these there is no telling what a sandbox does: one program of each group must run. */
const NEEDED: readonly (readonly string[])[] = [
  ['process_fork'],
  ['process_exec'],
  ['socket_sent', 'socket_sent_fexit', 'socket_sent_kprobe'],
  ['socket_arrived', 'socket_arrived_fentry', 'socket_arrived_kprobe'],
  ['socket_closed'],
];

/** Do these programs suffice to tell what a sandbox does? */
export const tellsPhases = (attached: readonly string[]): boolean =>
  NEEDED.every((programs) => programs.some((program) => attached.includes(program)));

/** What a watch needs of the probes. */
export interface WatchedProbes {
  readonly attached: readonly string[];
  arm(tag: number, on: boolean): void;
  stats(): { dropped: number };
}

export interface WatchOptions {
  probes: WatchedProbes;
  limits: DetectorLimits;
  /** Delivers what the probes have reported so far to the sink that passes it on to this watch. */
  poll: () => void;
  /** Processes of a sandbox now. */
  pids: (tag: number) => Iterable<number>;
  /** A sandbox does something else now. */
  onPhase: (tag: number, phase: Phase) => void;
}

interface Watched {
  detector: PhaseDetector;
  cpu: TreeCpu;
  told: Phase;
  armed: boolean;
}

/** Tells of each sandbox what it does, from what the probes report and from the CPU time of its processes. */
export class PhaseWatch {
  /** Whether the probes that run suffice. Otherwise every phase stays `unknown`. */
  readonly able: boolean;
  private readonly watched = new Map<number, Watched>();
  private timer: NodeJS.Timeout | null = null;
  private timerAt = Infinity;
  private lossAt = 0;
  private dropped = 0;

  constructor(private readonly options: WatchOptions) {
    this.able = tellsPhases(options.probes.attached);
  }

  add(tag: number): void {
    if (!this.able) return;
    const detector = new PhaseDetector(this.options.limits, monotonicMs());
    this.watched.set(tag, { detector, cpu: new TreeCpu(), told: 'unknown', armed: false });
    this.settle(tag);
  }

  remove(tag: number): void {
    if (this.watched.delete(tag)) this.options.probes.arm(tag, false);
  }

  /** A process was started or has become another program. */
  started(tag: number, timeNs: number): void {
    this.tell(tag, ({ detector }) => detector.started(timeNs / NS_PER_MS));
  }

  /** Somebody has brought a process into the sandbox; a tool call of an agent outside. */
  entered(tag: number, pid: number, timeNs: number): void {
    this.tell(tag, ({ detector }) => detector.entered(pid, timeNs / NS_PER_MS));
  }

  exited(tag: number, pid: number, timeNs: number): void {
    this.tell(tag, ({ detector }) => detector.exited(pid, timeNs / NS_PER_MS));
  }

  traffic(tag: number, traffic: Traffic, timeNs: number): void {
    this.tell(tag, ({ detector, cpu }) => {
      detector.traffic(traffic, timeNs / NS_PER_MS);
      // What was done before the request is no sign that something is done after it.
      if (traffic.sentBytes > 0) detector.look(monotonicMs(), cpu.ms(this.options.pids(tag)));
    });
  }

  closed(tag: number, connection: number, timeNs: number): void {
    this.tell(tag, ({ detector }) => detector.closed(connection, timeNs / NS_PER_MS));
  }

  close(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    for (const tag of [...this.watched.keys()]) this.remove(tag);
  }

  private tell(tag: number, what: (watched: Watched) => void): void {
    const watched = this.watched.get(tag);
    if (watched === undefined) return;
    what(watched);
    this.settle(tag);
  }

  /** Passes a new phase on, and sees to it that the next look comes in time. */
  private settle(tag: number): void {
    const watched = this.watched.get(tag);
    if (watched === undefined) return;
    const { detector, told } = watched;
    const { phase } = detector;
    const armed = phase !== 'tool_running';
    if (armed !== watched.armed) this.options.probes.arm(tag, (watched.armed = armed));
    this.schedule(detector.due);
    watched.told = phase;
    if (phase !== told) this.options.onPhase(tag, phase);
  }

  private schedule(at: number): void {
    if (at >= this.timerAt) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timerAt = at;
    this.timer = setTimeout(() => this.lookAround(), Math.max(0, Math.ceil(at - monotonicMs())));
    this.timer.unref();
  }

  private lookAround(): void {
    this.timer = null;
    this.timerAt = Infinity;
    this.options.poll();
    this.checkLoss();
    const now = monotonicMs();
    for (const [tag, { detector, cpu }] of [...this.watched]) {
      if (detector.due <= now) detector.look(now, cpu.ms(this.options.pids(tag)));
      this.settle(tag);
    }
  }

  /** What was lost may have been of any sandbox. */
  private checkLoss(): void {
    const now = monotonicMs();
    if (now < this.lossAt) return;
    this.lossAt = now + LOSS_MS;
    const { dropped } = this.options.probes.stats();
    if (dropped === this.dropped) return;
    this.dropped = dropped;
    for (const { detector } of this.watched.values()) detector.lost(now);
  }
}
