import { connect, type Socket } from 'node:net';
import { AgentZipError, ERRORS, type ErrorCode } from '../errors.js';
import { encodeFrame, FrameReader } from './frames.js';
import type { Claim, ClaimResult, Op, Requests } from './protocol.js';

interface Waiting {
  resolve(reply: unknown): void;
  reject(error: Error): void;
}

const bytesOf = (slots: Uint32Array): Uint8Array =>
  new Uint8Array(slots.buffer, slots.byteOffset, slots.byteLength);

/** The controller's end of the pager's socket. Requests are answered in any order. */
export class PagerClient {
  private readonly waiting = new Map<number, Waiting>();
  private readonly reader = new FrameReader();
  private nextId = 1;
  /** Settles when the connection is gone; every request under way is then rejected with AZ_PAGER_LOST. */
  readonly closed: Promise<void>;

  private constructor(private readonly socket: Socket) {
    socket.on('data', (chunk) => {
      try {
        for (const frame of this.reader.push(chunk)) this.settle(frame.id, frame.json);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on('error', () => {}); // `close` follows and rejects whoever waits
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        for (const { reject } of this.waiting.values()) {
          reject(new AgentZipError('AZ_PAGER_LOST', { pid: '?', reason: 'the connection closed' }));
        }
        this.waiting.clear();
        resolve();
      });
    });
  }

  /** Rejects with the socket's error (ENOENT, ECONNREFUSED) when no pager listens. */
  static connect(socketPath: string): Promise<PagerClient> {
    return new Promise((resolve, reject) => {
      const socket = connect(socketPath);
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new PagerClient(socket));
      });
    });
  }

  request<O extends Op>(
    op: O,
    request: Requests[O]['request'],
    tail?: Uint8Array,
  ): Promise<Requests[O]['reply']> {
    const id = this.nextId;
    this.nextId = (id + 1) >>> 0;
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) {
        return reject(new AgentZipError('AZ_PAGER_LOST', { pid: '?', reason: 'the connection is closed' }));
      }
      this.waiting.set(id, { resolve: resolve as (reply: unknown) => void, reject });
      for (const part of encodeFrame(id, { op, ...request }, tail)) this.socket.write(part);
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

  /** See Requests.watch: the sequence to give to `free`. */
  async watch(owner: string, slots: Uint32Array): Promise<number> {
    return (await this.request('watch', { owner }, bytesOf(slots))).sequence;
  }

  /** Returns how many were freed. */
  async free(owner: string, sequence: number, slots: Uint32Array): Promise<number> {
    return (await this.request('free', { owner, sequence }, bytesOf(slots))).freed;
  }

  async drain(): Promise<void> {
    await this.request('drain', {});
  }

  close(): void {
    this.socket.end();
  }

  private settle(id: number, json: Record<string, unknown>): void {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (waiting === undefined) return;
    if (json.error === undefined) return waiting.resolve(json.ok);
    const { code, details } = json.error as { code: string; details: Record<string, string | number> };
    const known = code in ERRORS ? (code as ErrorCode) : 'AZ_PAGER_REFUSED';
    waiting.reject(new AgentZipError(known, details));
  }
}
