import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { connect as connectSocket } from 'node:net';

const ANSWER_MS = 5000;
/** A list of some thousand containers with their specifications. */
const MOST_BYTES = 128 << 20;
/** Compressed or not, then the length of the message that follows. */
const HEAD_BYTES = 5;

export interface GrpcCall {
  /** `/package.Service/Method`. */
  path: string;
  request: Uint8Array;
  metadata?: Record<string, string>;
}

/** One server of gRPC (HTTP/2) on a Unix socket. It is connected to for a call, and let go of after it. */
export class Grpc {
  constructor(private readonly socket: string) {}

  /** The answer of a call that has one. */
  async ask(call: GrpcCall): Promise<Uint8Array> {
    const session = this.connect();
    try {
      return await new Promise<Uint8Array>((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`no answer within ${ANSWER_MS} ms`)), ANSWER_MS);
        const messages: Uint8Array[] = [];
        const ended = (error: Error | null): void => {
          clearTimeout(late);
          if (error !== null) reject(error);
          else if (messages.length !== 1) reject(new Error(`${messages.length} answers to one request`));
          else resolve(messages[0]);
        };
        start(session, call, (message) => messages.push(message), ended);
      });
    } finally {
      session.destroy();
    }
  }

  /** A call whose answers go on, until the returned function is called. `begun` once it has connected. */
  follow(
    call: GrpcCall,
    on: { begun: () => void; message: (message: Uint8Array) => void; ended: (error: Error) => void },
  ): () => void {
    const session = this.connect();
    let over = false;
    const end = (error: Error | null): void => {
      if (over) return;
      over = true;
      session.destroy();
      on.ended(error ?? new Error('it has ended its events'));
    };
    session.once('connect', () => !over && on.begun());
    start(session, call, (message) => !over && on.message(message), end);
    return () => {
      over = true;
      session.destroy();
    };
  }

  private connect(): ClientHttp2Session {
    return connect('http://localhost', { createConnection: () => connectSocket(this.socket) });
  }
}

function start(
  session: ClientHttp2Session,
  { path, request, metadata = {} }: GrpcCall,
  message: (message: Uint8Array) => void,
  ended: (error: Error | null) => void,
): void {
  session.on('error', ended).on('close', () => ended(new Error('the connection was closed')));
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(request.length, 1);
  const stream: ClientHttp2Stream = session.request({
    ...{ [constants.HTTP2_HEADER_METHOD]: 'POST', [constants.HTTP2_HEADER_PATH]: path },
    ...{ te: 'trailers', 'content-type': 'application/grpc', ...metadata },
  });
  let status: Record<string, unknown> = {};
  stream.on('response', (headers) => (status = headers)).on('trailers', (trailers) => (status = trailers));
  const take = messages(message);
  stream.on('data', (chunk: Buffer) => {
    try {
      take(chunk);
    } catch (error) {
      ended(error as Error);
    }
  });
  stream.on('error', ended).on('end', () => {
    const code = String(status['grpc-status'] ?? status[':status']);
    ended(
      code === '0'
        ? null
        : new Error(`status ${code}: ${decodeURIComponent(String(status['grpc-message'] ?? ''))}`),
    );
  });
  stream.end(Buffer.concat([head, request]));
}

/** Cuts what arrives into messages. Throws at one that is compressed, which was not asked for, or too long. */
function messages(take: (message: Uint8Array) => void): (chunk: Buffer) => void {
  let parts: Buffer[] = [];
  let held = 0;
  let wanted = HEAD_BYTES;
  return (chunk) => {
    parts.push(chunk);
    held += chunk.length;
    if (held < wanted) return;
    let bytes = Buffer.concat(parts);
    for (wanted = HEAD_BYTES; bytes.length >= HEAD_BYTES; wanted = HEAD_BYTES) {
      wanted += bytes.readUInt32BE(1);
      if (bytes[0] !== 0 || wanted > MOST_BYTES) throw new Error('an answer is compressed or too long');
      if (bytes.length < wanted) break;
      take(bytes.subarray(HEAD_BYTES, wanted));
      bytes = bytes.subarray(wanted);
    }
    parts = [bytes];
    held = bytes.length;
  };
}
