import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { AgentZipError } from '../errors.js';
import type { Handlers } from './control.js';
import { encodeFrame, FrameReader, type Frame } from './frames.js';
import { NO_SUCH_REQUEST, type Op } from './protocol.js';

/** Serves the handlers on a Unix socket that only root can open. A client that sends nonsense loses its connection. */
export async function serveControl(socketPath: string, handlers: Handlers): Promise<Server> {
  rmSync(socketPath, { force: true });
  const server = createServer((socket) => {
    const reader = new FrameReader();
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => {
      try {
        for (const frame of reader.push(chunk)) void answer(socket, handlers, frame);
      } catch {
        socket.destroy();
      }
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(socketPath, resolve);
  });
  chmodSync(socketPath, 0o600);
  return server;
}

async function answer(socket: Socket, handlers: Handlers, frame: Frame): Promise<void> {
  let reply: object;
  try {
    const { op, ...request } = frame.json;
    const handler = Object.hasOwn(handlers, String(op)) ? handlers[op as Op] : undefined;
    if (handler === undefined) {
      throw new AgentZipError('AZ_PAGER_REFUSED', { request: String(op), reason: NO_SUCH_REQUEST });
    }
    reply = { ok: await handler(request as never, frame.tail) };
  } catch (error) {
    const known = error instanceof AgentZipError;
    reply = {
      error: {
        code: known ? error.code : 'AZ_PAGER_REFUSED',
        details: known ? error.details : { request: String(frame.json.op), reason: String(error) },
      },
    };
  }
  if (!socket.destroyed) for (const part of encodeFrame(frame.id, reply)) socket.write(part);
}
