import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError, ERRORS, type ErrorCode } from '../errors.js';
import { encodeFrame, FrameReader } from './frames.js';
import { hasPager } from './options.js';
import {
  NO_SUCH_REQUEST,
  type Claim,
  type ClaimResult,
  type DemandReads,
  type DeviceLogs,
  type Op,
  type PagerInfo,
  type Requests,
} from './protocol.js';
import { SlotLog } from './requests/slot-log.js';

/** How long a pager that takes over may take until it answers, ms, and the time between two attempts. */
const TAKEOVER_TIMEOUT_MS = 10_000;
const PAUSE_MS = 20;

interface Waiting {
  op: Op;
  /** What was sent, to be sent again to a pager that takes over. */
  parts: Buffer[];
  resolve(reply: unknown): void;
  reject(error: Error): void;
}

const bytesOf = (slots: Uint32Array): Uint8Array =>
  new Uint8Array(slots.buffer, slots.byteOffset, slots.byteLength);

/** The answer; null from a pager that is older than what it is asked for. */
async function unlessOlder<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof AgentZipError && error.details.reason === NO_SUCH_REQUEST) return null;
    throw error;
  }
}

/**
 * The controller's end of the pager's socket. Requests are answered in any order. When the pager dies and its standby
 * takes over, the client connects to that one, opens the windows that were open, and asks again what was not answered:
 * every request may be asked twice.
 */
export class PagerClient {
  /** Told of each takeover, once the new pager answers. What was claimed and not refined must be claimed anew. */
  onTakeover: (info: PagerInfo) => void = () => {};
  /** What an operator should know of the pager as it was found. */
  readonly warnings: string[] = [];
  /** Takeovers seen. */
  takeovers = 0;
  /** Settles when the connection is gone for good; every request under way is then rejected with AZ_PAGER_LOST. */
  readonly closed: Promise<void>;
  private readonly waiting = new Map<number, Waiting>();
  private readonly openWindows = new Map<string, Requests['openWindow']['request']>();
  private socket: Socket | null = null;
  /** Why no other pager is expected on this connection: it was closed, drained, or is lost. */
  private ending = false;
  private nextId = 1;
  private settleClosed!: () => void;

  private constructor(
    private readonly socketPath: string,
    socket: Socket,
  ) {
    this.closed = new Promise((resolve) => (this.settleClosed = resolve));
    this.attach(socket);
  }

  /** Rejects with the socket's error (ENOENT, ECONNREFUSED) when no pager listens. */
  static async connect(socketPath: string): Promise<PagerClient> {
    return new PagerClient(socketPath, await connectTo(socketPath));
  }

  request<O extends Op>(
    op: O,
    request: Requests[O]['request'],
    tail?: Uint8Array,
  ): Promise<Requests[O]['reply']> {
    return new Promise((resolve, reject) => {
      if (this.ending && this.socket === null) return reject(lost('the connection is closed'));
      const { owner } = request as { owner?: string };
      if (op === 'openWindow') {
        const { encoding } = request as Requests['openWindow']['request'];
        this.openWindows.set(owner as string, { owner: owner as string, encoding });
      }
      if (op === 'closeWindow' || op === 'forget') this.openWindows.delete(owner as string);
      this.send(op, request, resolve as (reply: unknown) => void, reject, tail);
    });
  }

  claim({ slots, templatePages, ...rest }: Claim): Promise<ClaimResult> {
    const words = new Uint32Array(slots.length * 2);
    words.set(slots, 0);
    words.set(templatePages, slots.length);
    return this.request('claim', rest, new Uint8Array(words.buffer));
  }

  /** For each slot: was it written after `sequence`? */
  async writtenSince(sequence: number, slots: Uint32Array): Promise<(index: number) => boolean> {
    const { bitmap } = await this.request('writtenSince', { sequence }, bytesOf(slots));
    const bits = Buffer.from(bitmap, 'base64');
    return (index) => (bits[index >> 3] & (1 << (index & 7))) !== 0;
  }

  /** See Requests.expect. */
  async expect(slots: Uint32Array): Promise<void> {
    await this.request('expect', {}, bytesOf(slots));
  }

  /**
   * What is read on demand, from now on until the pager is replaced. Null: the pager is older than we are and does not tell.
   * SystemError when it may not be looked into, or has just gone; AZ_PAGER_REFUSED when not every fault asks it.
   */
  async demandReads(): Promise<DemandReads | null> {
    const log = await unlessOlder(this.request('readLog', {}));
    return log === null ? null : SlotLog.of(log.pid, log.fd);
  }

  /** What is read and written from now on until the pager is replaced; null and errors as of `demandReads`. */
  async deviceLogs(): Promise<DeviceLogs | null> {
    const logs = await unlessOlder(this.request('deviceLogs', {}));
    if (logs === null) return null;
    const { pid, reads, writes } = logs;
    return { reads: SlotLog.of(pid, reads), writes: SlotLog.of(pid, writes) };
  }

  /** See Requests.watch: the sequence to give to `free`. `blocks`: see Claim. */
  async watch(owner: string, slots: Uint32Array, blocks = false): Promise<number> {
    return (await this.request('watch', { owner, blocks }, bytesOf(slots))).sequence;
  }

  /** Returns how many were freed. */
  async free(owner: string, sequence: number, slots: Uint32Array, blocks = false): Promise<number> {
    return (await this.request('free', { owner, sequence, blocks }, bytesOf(slots))).freed;
  }

  async drain(): Promise<void> {
    await this.request('drain', {});
  }

  close(): void {
    this.ending = true;
    this.socket?.end();
  }

  private send(
    op: Op,
    request: object,
    resolve: (reply: unknown) => void,
    reject: (error: Error) => void,
    tail?: Uint8Array,
  ): void {
    const id = this.nextId;
    this.nextId = (id + 1) >>> 0;
    const parts = encodeFrame(id, { op, ...request }, tail);
    this.waiting.set(id, { op, parts, resolve, reject });
    for (const part of parts) this.socket?.write(part);
  }

  private attach(socket: Socket): void {
    const reader = new FrameReader();
    this.socket = socket;
    socket.on('data', (chunk) => {
      try {
        for (const frame of reader.push(chunk)) this.settle(frame.id, frame.json);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on('error', () => {}); // `close` follows
    socket.on('close', () => {
      this.socket = null;
      if (this.ending) this.lose();
      else void this.reconnect();
    });
  }

  private async reconnect(): Promise<void> {
    for (let waited = 0; waited < TAKEOVER_TIMEOUT_MS && !this.ending; waited += PAUSE_MS) {
      try {
        return this.resume(await connectTo(this.socketPath));
      } catch {
        // A pager or standby that lives holds the lock; without one nobody will answer any more.
        if (!hasPager(dirname(this.socketPath))) break;
        await sleep(PAUSE_MS);
      }
    }
    this.lose();
  }

  private resume(socket: Socket): void {
    const unanswered = [...this.waiting.values()];
    this.attach(socket);
    const welcome = (info: unknown): void => {
      this.takeovers++;
      this.onTakeover(info as PagerInfo);
    };
    this.send('hello', {}, welcome, () => {});
    for (const window of this.openWindows.values())
      this.send(
        'openWindow',
        window,
        () => {},
        () => {},
      );
    for (const { parts } of unanswered) for (const part of parts) socket.write(part);
  }

  private lose(): void {
    this.ending = true;
    for (const { reject } of this.waiting.values()) reject(lost('the connection closed'));
    this.waiting.clear();
    this.settleClosed();
  }

  private settle(id: number, json: Record<string, unknown>): void {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (waiting === undefined) return;
    if (json.error === undefined) {
      // A pager that has drained ends, and so does this connection.
      if (waiting.op === 'drain') this.ending = true;
      return waiting.resolve(json.ok);
    }
    const { code, details } = json.error as { code: string; details: Record<string, string | number> };
    const known = code in ERRORS ? (code as ErrorCode) : 'AZ_PAGER_REFUSED';
    waiting.reject(new AgentZipError(known, details));
  }
}

/** What the controller needs of a pager. */
export type Pager = Pick<
  PagerClient,
  | 'request'
  | 'claim'
  | 'writtenSince'
  | 'expect'
  | 'demandReads'
  | 'deviceLogs'
  | 'warnings'
  | 'watch'
  | 'free'
  | 'closed'
  | 'onTakeover'
  | 'takeovers'
  | 'close'
>;

function connectTo(socketPath: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath);
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

const lost = (reason: string): AgentZipError => new AgentZipError('AZ_PAGER_LOST', { pid: '?', reason });
