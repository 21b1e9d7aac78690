/** When bytes on a connection are a request, and when what comes back is an answer. Times are ms of one clock. */
export interface TrafficLimits {
  /** Fewer bytes sent in a row are a ping, an acknowledgement, or headers whose body is still to come. */
  requestBytes: number;
  /** A stream, or an inbound exchange, from which nothing has come for so long has ended. */
  streamEndMs: number;
  inboundQuietMs: number;
}

const TLS_PORT = 443;
/** Bytes sent with a longer pause between them are not one request. */
const BURST_MS = 1000;
/**
 * Less than an answer: HTTP/2's window updates, pings and acknowledgements take 9 to 17 bytes each and 22 more in a TLS
 * record, `100 Continue` takes 25.
 */
const ANSWER_BYTES = 64;
/** TLS 1.3 servers send session tickets after the handshake, while the first request is on its way (RFC 8446, 4.6.1). */
const TICKET_BYTES = 1024;
const TICKET_MS = 1000;
/** A request that has had no answer for so long was answered unseen, or never will be. */
export const FORGET_MS = 15 * 60_000;

export type Exchange = 'quiet' | 'asking' | 'answering';

/** One connection of a sandbox to a model. It never sees what is sent, only how much and when. */
export class Connection {
  state: Exchange = 'quiet';
  lastSentAt = -Infinity;
  private lastArrivedAt = -Infinity;
  private burstBytes = 0;
  private received: number;
  /** Session tickets may come until then; null before the handshake is over. */
  private ticketUntil: number | null = null;
  private readonly tls: boolean;

  constructor(
    port: number,
    received: number,
    private readonly limits: TrafficLimits,
  ) {
    this.tls = port === TLS_PORT;
    this.received = received;
  }

  /** Returns whether a request begins. */
  sent(bytes: number, received: number, at: number): boolean {
    // Before the server has said anything it is the handshake.
    if (this.tls && received === 0) return false;
    this.ticketUntil ??= this.tls ? at + TICKET_MS : -Infinity;
    if (this.state !== 'asking' && at - this.lastSentAt > BURST_MS) this.burstBytes = 0;
    this.lastSentAt = at;
    if (this.state === 'asking') return false;
    this.burstBytes += bytes;
    if (this.burstBytes < this.limits.requestBytes) return false;
    this.state = 'asking';
    this.received = received;
    return true;
  }

  /** Returns whether an answer begins. */
  arrived(received: number, at: number): boolean {
    const bytes = received - this.received;
    this.received = received;
    if (this.state === 'asking' && (bytes < ANSWER_BYTES || this.isTicket(bytes, at))) return false;
    const begins = this.state === 'asking';
    if (begins) this.state = 'answering';
    // Small sends that are each answered, like pings, never add up to a request.
    this.burstBytes = 0;
    this.lastArrivedAt = at;
    if (this.ticketUntil !== null && bytes >= ANSWER_BYTES) this.ticketUntil = -Infinity;
    return begins;
  }

  private isTicket(bytes: number, at: number): boolean {
    const may = this.ticketUntil !== null && at < this.ticketUntil;
    // They come once.
    this.ticketUntil = -Infinity;
    return may && bytes <= TICKET_BYTES;
  }

  /** When time alone changes the state. */
  get endsAt(): number {
    if (this.state === 'answering') return this.lastArrivedAt + this.limits.streamEndMs;
    return this.state === 'asking' ? this.lastSentAt + FORGET_MS : Infinity;
  }

  /** Returns whether a request was given up. */
  expire(now: number): boolean {
    if (now < this.endsAt) return false;
    const forgotten = this.state === 'asking';
    this.state = 'quiet';
    this.burstBytes = 0;
    return forgotten;
  }

  get answeredAt(): number {
    return this.state === 'answering' ? this.lastArrivedAt : -Infinity;
  }
}

/** A connection on which somebody outside asks the sandbox: each request is a tool call. */
export class InboundConnection {
  /** A request is being worked on, or its answer is not old enough to be all of it. */
  private endsAtMs = Infinity;

  constructor(private readonly limits: TrafficLimits) {}

  asked(): void {
    this.endsAtMs = Infinity;
  }

  answered(at: number): void {
    this.endsAtMs = at + this.limits.inboundQuietMs;
  }

  get endsAt(): number {
    return this.endsAtMs;
  }
}
