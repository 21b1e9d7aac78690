import type { Traffic } from '../../src/telemetry/events.js';
import { type DetectorLimits, type Phase, PhaseDetector } from '../../src/telemetry/phase-detector.js';
import { DEFAULT_POLICY } from '../../src/policy/defaults.js';

/** A sandbox on a virtual clock, seen by a detector that is looked after as a watch looks after it. */
export class VirtualAgent {
  now = 1000;
  /** Changes of phase, with their times. */
  readonly phases: [at: number, phase: Phase][] = [];
  readonly detector: PhaseDetector;
  private cpuMs = 0;
  private lookedAt = 0;
  /** Share of a core that its processes use. */
  busy = 0;
  private readonly received = new Map<number, number>();

  constructor(limits: Partial<DetectorLimits> = {}) {
    this.detector = new PhaseDetector({ ...DEFAULT_POLICY.detect, ...limits }, this.now);
    this.look();
  }

  get phase(): Phase {
    return this.detector.phase;
  }

  /** Lets time pass, with a look whenever one is due. */
  pass(ms: number): this {
    const end = this.now + ms;
    for (let due = this.due(); due <= end; due = this.due()) {
      this.advance(due);
      this.look();
    }
    this.advance(end);
    return this;
  }

  send(bytes: number, connection = 1, port = 443): this {
    this.tell({ connection, port, sentBytes: bytes });
    this.look();
    return this;
  }

  receive(bytes: number, connection = 1, port = 443): this {
    this.received.set(connection, (this.received.get(connection) ?? 0) + bytes);
    this.tell({ connection, port, sentBytes: 0 });
    return this;
  }

  /** A TLS handshake with a server at `ms` distance. */
  handshake(ms = 30, connection = 1): this {
    return this.send(1700, connection).pass(ms).receive(4300, connection).send(80, connection);
  }

  inbound(what: 'asked' | 'answered', connection = 9, pid = 7): this {
    this.tell({ connection, port: 8080, inbound: true, pid, sentBytes: what === 'answered' ? 500 : 0 });
    return this;
  }

  fork(): this {
    this.detector.started(this.now);
    return this.note();
  }

  /** Somebody brings a process in. */
  enter(pid: number): this {
    this.detector.entered(pid, this.now);
    return this.note();
  }

  exit(pid: number): this {
    this.detector.exited(pid, this.now);
    return this.note();
  }

  close(connection = 1): this {
    this.detector.closed(connection, this.now);
    return this.note();
  }

  private tell(traffic: Partial<Traffic> & Pick<Traffic, 'connection' | 'port' | 'sentBytes'>): void {
    const receivedBytes = this.received.get(traffic.connection) ?? 0;
    this.detector.traffic({ inbound: false, pid: 7, receivedBytes, ...traffic }, this.now);
    this.note();
  }

  /** Never at the instant of the last look, as no timer does. */
  private due(): number {
    return Math.max(this.detector.due, this.now, this.lookedAt + 1);
  }

  private advance(to: number): void {
    this.cpuMs += this.busy * (to - this.now);
    this.now = to;
  }

  private look(): void {
    this.lookedAt = this.now;
    this.detector.look(this.now, this.cpuMs);
    this.note();
  }

  private note(): this {
    if (this.phases.at(-1)?.[1] !== this.phase) this.phases.push([this.now, this.phase]);
    return this;
  }
}
