import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { AgentZipError } from '../errors.js';
import { readJson } from './body.js';
import { asAgentZipError, errorBody, statusOf } from './http-errors.js';
import { findRoute, type Answer, type Service } from './routes.js';
import { listen, type SocketOptions } from './socket.js';

/** A host that can not send its headers or body in this time is broken: nothing on a Unix socket takes so long. */
const HEADERS_TIMEOUT_MS = 5_000;
const REQUEST_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 30_000;
/** Time that answers on their way out have when the server closes. */
const CLOSE_GRACE_MS = 1_000;
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_CONNECTIONS = 512;
/** From so many on those that rest between two requests are closed, so that hosts which leak them lock nobody out. */
const BUSY_CONNECTIONS = 384;
/** Requests of one connection in hand: Node takes all that come in one piece, however slowly answers are read. */
const MAX_PIPELINED = 16;
/** A client that does not read its answer in this time is broken; answers wait in memory for their readers. */
const SEND_TIMEOUT_MS = 30_000;

export interface ServerOptions extends SocketOptions {
  maxBodyKiB: number;
  /** Called with each error that is ours and not the host's. */
  onInternalError: (error: AgentZipError) => void;
  /** Time to receive a whole request, in ms; its headers have half of it at most. Default 10 s. */
  requestTimeoutMs?: number;
  /** Time to take in an answer, in ms. Default 30 s. */
  sendTimeoutMs?: number;
}

/** The control server: HTTP/1.1 and JSON on a Unix socket. docs/api.md is its reference. */
export class ControlServer {
  private closing = false;
  private readonly inHand = new WeakMap<Socket, number>();

  private constructor(
    private readonly service: Service,
    private readonly options: ServerOptions,
    private readonly http: Server,
  ) {}

  /** Listens. The caller has made sure that no other instance owns the path. Errors: AZ_RUNTIME_DIR. */
  static async start(service: Service, options: ServerOptions): Promise<ControlServer> {
    const timeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    const http = createServer({
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, timeoutMs / 2),
      requestTimeout: timeoutMs,
      connectionsCheckingInterval: Math.min(1_000, timeoutMs / 4),
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
    });
    http.maxConnections = MAX_CONNECTIONS;
    const server = new ControlServer(service, options, http);
    http.on('connection', () => server.makeRoom());
    http.on('request', (request, response) => {
      if (server.admit(request.socket, response)) void server.serve(request, response);
    });
    http.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) =>
      refuse(socket, clientError(error, timeoutMs)),
    );
    await listen(http, options);
    return server;
  }

  /** Stops taking requests; those in hand are answered. The socket's file goes away. */
  close(): Promise<void> {
    this.closing = true;
    return new Promise((resolve) => {
      const force = setTimeout(() => this.http.closeAllConnections(), CLOSE_GRACE_MS);
      this.http.close(() => {
        clearTimeout(force);
        resolve();
      });
    });
  }

  /** False, and the connection is gone: it has asked for too much at once. */
  private admit(socket: Socket, response: ServerResponse): boolean {
    const count = (this.inHand.get(socket) ?? 0) + 1;
    if (count > MAX_PIPELINED) {
      socket.destroy();
      return false;
    }
    this.inHand.set(socket, count);
    response.on('close', () => this.inHand.set(socket, (this.inHand.get(socket) ?? 1) - 1));
    return true;
  }

  private makeRoom(): void {
    this.http.getConnections((_, count) => {
      if (count >= BUSY_CONNECTIONS) this.http.closeIdleConnections();
    });
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let answer: Answer;
    try {
      answer = await this.answer(request);
    } catch (caught) {
      // The client went away while it was still sending.
      if (request.destroyed && !request.complete) return;
      const error = asAgentZipError(caught);
      answer = { status: statusOf(error), json: errorBody(error) };
      if (answer.status === 500) this.options.onInternalError(error);
      if (error.code === 'AZ_METHOD_NOT_ALLOWED') response.setHeader('allow', String(error.details.allowed));
    }
    if (this.closing || this.service.gate.closed) response.setHeader('connection', 'close');
    send(response, answer, this.options.sendTimeoutMs ?? SEND_TIMEOUT_MS);
  }

  private async answer(request: IncomingMessage): Promise<Answer> {
    const [path] = (request.url ?? '/').split('?');
    const body = await readJson(request, this.options.maxBodyKiB);
    const { route, id } = findRoute(request.method ?? 'GET', path);
    const { api, gate } = this.service;
    if (gate.closed && !route.readOnly) throw new AgentZipError('AZ_DRAINING');
    return route.handle(api, id, body, gate);
  }
}

function send(response: ServerResponse, { status, json, text }: Answer, timeoutMs: number): void {
  if (response.destroyed) return;
  const timer = setTimeout(() => response.destroy(), timeoutMs);
  response.on('close', () => clearTimeout(timer));
  const body = text?.body ?? (json === undefined ? '' : `${JSON.stringify(json)}\n`);
  if (body !== '') response.setHeader('content-type', text?.type ?? 'application/json; charset=utf-8');
  if (status !== 204) response.setHeader('content-length', Buffer.byteLength(body));
  response.writeHead(status).end(body);
}

interface Refusal {
  line: string;
  error: AgentZipError;
}

/** What the HTTP parser could not take. */
function clientError({ code = '' }: NodeJS.ErrnoException, timeoutMs: number): Refusal | undefined {
  if (code === 'ECONNRESET' || code === 'EPIPE') return undefined;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    const details = { what: 'the request', seconds: timeoutMs / 1000, remedy: 'send it in one piece' };
    return { line: '408 Request Timeout', error: new AgentZipError('AZ_TIMEOUT', details) };
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    const what = `the headers have more than ${MAX_HEADER_BYTES / 1024} KiB`;
    const error = new AgentZipError('AZ_BAD_REQUEST', { what });
    return { line: '431 Request Header Fields Too Large', error };
  }
  const error = new AgentZipError('AZ_BAD_REQUEST', { what: `the request is not HTTP/1.1 (${code})` });
  return { line: '400 Bad Request', error };
}

/** Answers on the bare socket: there is no response object for a request that was never understood. */
function refuse(socket: Socket, refusal: Refusal | undefined): void {
  if (!refusal || !socket.writable) {
    socket.destroy();
    return;
  }
  const body = `${JSON.stringify(errorBody(refusal.error))}\n`;
  const head = [
    `HTTP/1.1 ${refusal.line}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
