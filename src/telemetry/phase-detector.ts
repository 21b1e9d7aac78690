import { Connection, InboundConnection, type TrafficLimits } from './connection.js';
import type { Traffic } from './events.js';

export type Phase = 'tool_running' | 'llm_wait' | 'llm_streaming' | 'idle' | 'unknown';

export interface DetectorLimits extends TrafficLimits {
  /** A request sent, and nothing done for so long, is a wait. */
  silenceMs: number;
  /** CPU time of the sandbox in percent of one core from which it is doing something. */
  busyPercent: number;
  /** Nothing done and nothing asked for so long is idle. */
  idleMs: number;
}

/** CPU time over less than this says nothing. */
const SAMPLE_MS_MIN = 8;
/** Time between looks at the CPU time: while an answer is awaited, and otherwise. */
const WAIT_SAMPLE_MS = 50;
const SAMPLE_MS = 250;
/** Connections remembered; those that were forgotten before they were closed are the oldest. */
const CONNECTIONS_MAX = 256;
/** A wait that keeps being interrupted must be silent for longer and longer, up to this. */
const SILENCE_MS_MAX = 2000;

/**
 * Tells from outside what a sandbox does: from what its connections to models carry and when, from processes that start,
 * and from the CPU time of all its processes. A pure function of what it is told; times are ms of one clock, never going
 * back by more than events and looks may overlap. It begins, and after a loss goes on, as `unknown`; only a request that was seen
 * to be sent, and a look at the CPU after it, make it `llm_wait`.
 */
export class PhaseDetector {
  phase: Phase = 'unknown';
  private readonly connections = new Map<number, Connection>();
  private readonly inbound = new Map<number, InboundConnection>();
  /** Processes that were brought in from outside, each a tool call; and when the last answer can be over. */
  private readonly entrants = new Set<number>();
  private servedUntil = -Infinity;
  /** Somebody outside has asked it: it is a server of tools, whose agent waits for a model when it asks for none. */
  private serves = false;
  /** It has asked a model itself: its agent is not outside. */
  private asks = false;
  /** A tool has been seen since the last answer, or none is over. */
  private tool = false;
  private activeAt: number;
  private interruptions = 0;
  private sample: { at: number; cpuMs: number } | null = null;

  constructor(
    private readonly limits: DetectorLimits,
    now: number,
  ) {
    this.activeAt = now;
  }

  traffic(traffic: Traffic, at: number): void {
    if (traffic.inbound) this.served(traffic, at);
    else this.asked(traffic, at);
    this.update(at, false);
  }

  closed(connection: number, at: number): void {
    this.connections.delete(connection);
    this.inbound.delete(connection);
    this.update(at, false);
  }

  /** A process was brought in from outside. */
  entered(pid: number, at: number): void {
    this.entrants.add(pid);
    this.serves = true;
    this.active(at);
    this.update(at, false);
  }

  exited(pid: number, at: number): void {
    if (this.entrants.delete(pid)) this.servedUntil = at + this.limits.inboundQuietMs;
    this.update(at, false);
  }

  /** A process was started or has become another program. */
  started(at: number): void {
    this.active(at);
    this.update(at, false);
  }

  /** `cpuMs`: CPU time of all its processes so far. Due at {@link due}, and after what it was told of a request. */
  look(at: number, cpuMs: number): void {
    const { sample } = this;
    if (sample !== null && at - sample.at < SAMPLE_MS_MIN) return this.update(at, false);
    this.sample = { at, cpuMs };
    if (sample === null) return this.update(at, false);
    const share = (cpuMs - sample.cpuMs) / (at - sample.at);
    if (share * 100 >= this.limits.busyPercent) this.active(at);
    this.update(at, true);
  }

  /** Events were lost: nothing that was known holds any more. */
  lost(at: number): void {
    this.connections.clear();
    this.inbound.clear();
    this.entrants.clear();
    this.tool = this.serves = false;
    this.activeAt = at;
    this.phase = 'unknown';
  }

  /** When it wants to be looked at again. */
  get due(): number {
    const last = this.sample?.at ?? -Infinity;
    if (this.phase === 'llm_wait') return last + WAIT_SAMPLE_MS;
    // Most sandboxes at most times.
    if (this.connections.size === 0 && !this.serves) return last + SAMPLE_MS;
    const ends = [...this.connections.values()].map(({ endsAt }) => endsAt).filter((end) => end > last);
    const mayWait = this.mayWaitFrom;
    const pause = mayWait === Infinity ? SAMPLE_MS : WAIT_SAMPLE_MS;
    return Math.min(last + pause, Math.max(mayWait, last + SAMPLE_MS_MIN), ...ends);
  }

  private asked(traffic: Traffic, at: number): void {
    const { connection: id, sentBytes, receivedBytes } = traffic;
    let connection = this.connections.get(id);
    if (sentBytes > 0) {
      if (connection === undefined) {
        connection = new Connection(traffic.port, receivedBytes, this.limits);
        const [oldest] = this.connections.keys();
        if (this.connections.size === CONNECTIONS_MAX) this.connections.delete(oldest);
        this.connections.set(id, connection);
      }
      if (connection.sent(sentBytes, receivedBytes, at)) {
        this.interruptions = 0;
        this.asks = true;
      }
    } else if (connection?.arrived(receivedBytes, at) === true) {
      this.interruptions = 0;
      this.tool = false;
    }
  }

  private served({ connection: id, pid, sentBytes }: Traffic, at: number): void {
    let connection = this.inbound.get(id);
    if (connection === undefined) {
      // One that is nobody's here is a former sandbox's.
      if (pid === 0) return;
      this.inbound.set(id, (connection = new InboundConnection(this.limits)));
    }
    this.serves = true;
    if (sentBytes > 0) connection.answered(at);
    else connection.asked();
    this.active(at);
  }

  private active(at: number): void {
    if (this.phase === 'llm_wait') this.interruptions++;
    this.activeAt = Math.max(this.activeAt, at);
    this.tool = true;
  }

  private get silenceMs(): number {
    return Math.min(this.limits.silenceMs * 2 ** this.interruptions, SILENCE_MS_MAX);
  }

  /** From when on it waits if it stays silent; Infinity while it has nothing to wait for. */
  private get mayWaitFrom(): number {
    const states = [...this.connections.values()].map(({ state }) => state);
    if (states.includes('answering')) return Infinity;
    if (states.includes('asking')) return this.quietSince + this.silenceMs;
    if (!this.serves || this.asks || this.entrants.size > 0) return Infinity;
    const ends = [...this.inbound.values()].map(({ endsAt }) => endsAt);
    return Math.max(this.quietSince + this.silenceMs, this.servedUntil, ...ends);
  }

  /** Since when nothing was sent and nothing done. */
  private get quietSince(): number {
    return [...this.connections.values()].reduce(
      (latest, { lastSentAt, state }) => (state === 'asking' ? Math.max(latest, lastSentAt) : latest),
      this.activeAt,
    );
  }

  private update(now: number, looked: boolean): void {
    const connections = [...this.connections.values()];
    // Not `some`: each is asked.
    if (connections.filter((connection) => connection.expire(now)).length > 0) return this.lost(now);
    const answeredAt = Math.max(-Infinity, ...connections.map((connection) => connection.answeredAt));
    this.phase = answeredAt > -Infinity ? this.answered(answeredAt) : this.unanswered(now, looked);
  }

  private answered(answeredAt: number): Phase {
    // A tool that runs while the model still speaks is what counts, until it is silent and the model is not.
    if (this.tool && answeredAt - this.activeAt < this.silenceMs) return 'tool_running';
    this.tool = false;
    return 'llm_streaming';
  }

  private unanswered(now: number, looked: boolean): Phase {
    const { phase, limits, activeAt } = this;
    const mayWait = this.mayWaitFrom;
    if (mayWait < Infinity) {
      if (now >= mayWait && looked) {
        this.tool = false;
        return 'llm_wait';
      }
      return this.tool ? 'tool_running' : phase;
    }
    const asked =
      this.entrants.size > 0 || [...this.inbound.values()].some(({ endsAt }) => endsAt === Infinity);
    const serving = asked && !this.asks;
    if (serving || (this.tool && now - activeAt < limits.idleMs)) return 'tool_running';
    this.tool = false;
    return phase === 'unknown' && now - activeAt < limits.idleMs ? 'unknown' : 'idle';
  }
}
