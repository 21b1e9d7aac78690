import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { encodeFrame, FrameReader } from '../../src/pager/frames.js';
import type { Op } from '../../src/pager/protocol.js';
import { HELLO, NO_STATUS } from './scripted-pager.js';

/** Answers as `{ok}` or `{error}`, by request. */
const ANSWERS: Partial<Record<Op, object>> = {
  hello: { ok: HELLO },
  status: { ok: NO_STATUS },
};

/**
 * Listens where the service looks for a pager to take over, speaks its protocol and serves no device, so that the
 * service can be run whole without swap. Like the real one it ends after a drain that succeeded.
 */
export class AdoptedPager {
  /** Requests, in order. */
  readonly asked: string[] = [];
  readonly answers: Partial<Record<Op, object>> = { ...ANSWERS };
  private readonly sockets = new Set<Socket>();
  private readonly server: Server = createServer((socket) => this.serve(socket));

  static async start(runtimeDir: string): Promise<AdoptedPager> {
    const pager = new AdoptedPager();
    await new Promise<void>((resolve) => pager.server.listen(join(runtimeDir, 'pager.sock'), resolve));
    return pager;
  }

  /** As if it was killed. */
  stop(): void {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }

  private serve(socket: Socket): void {
    this.sockets.add(socket);
    const reader = new FrameReader();
    socket.on('error', () => {});
    socket.on('close', () => this.sockets.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      for (const { id, json } of reader.push(chunk)) {
        const op = json.op as Op;
        this.asked.push(op);
        const answer = this.answers[op] ?? { ok: {} };
        for (const part of encodeFrame(id, answer)) socket.write(part);
        if (op !== 'drain' || !('ok' in answer)) continue;
        this.server.close();
        socket.end();
      }
    });
  }
}
