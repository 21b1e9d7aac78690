import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Status } from '../../controller/api.js';
import { AgentZipError } from '../../errors.js';
import type { Sample } from '../watch/sample.js';
import { watch } from '../watch/watch.js';
import { readAssets } from './assets.js';
import { Events } from './events.js';
import { authority, cookieName, keyGiven, refusalOf, type Gate } from './guard.js';
import { History } from './history.js';

const INTERVAL_MS = 2_000;
const HEADERS_TIMEOUT_MS = 5_000;
const REQUEST_TIMEOUT_MS = 10_000;
const CHECK_MS = 1_000;
const MAX_HEADER_BYTES = 8 * 1024;
const MAX_CONNECTIONS = 64;

/** Only what is served here may run, and the page may ask nobody else. */
const HEADERS: Record<string, string> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
};

export interface DashboardOptions {
  host: '127.0.0.1' | '::1';
  /** 0: one that is free. */
  port: number;
  look: () => Promise<Status>;
  /** Between two looks, ms. */
  intervalMs?: number;
  /** One to go on with; default: a new one. */
  history?: History;
}

/** A page on loopback that shows what the service does. It reads, and nothing that it is asked can change anything. */
export class Dashboard {
  private readonly history: History;
  private readonly events = new Events();
  private readonly assets = readAssets();
  private readonly end = new AbortController();
  private gate: Gate;

  private constructor(
    private readonly http: Server,
    { host, port, look, intervalMs = INTERVAL_MS, history = new History() }: DashboardOptions,
  ) {
    this.history = history;
    this.gate = { host, port, token: randomBytes(24).toString('base64url') };
    http.maxConnections = MAX_CONNECTIONS;
    http.on('request', (request, response) => this.answer(request, response));
    http.on('clientError', (_error, socket) => socket.destroy());
    void this.follow(look, intervalMs);
  }

  /** Errors: AZ_DASHBOARD. */
  static async start(options: DashboardOptions): Promise<Dashboard> {
    const { host, port } = options;
    const http = createServer({
      ...{ headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS },
      ...{
        maxHeaderSize: MAX_HEADER_BYTES,
        keepAliveTimeout: REQUEST_TIMEOUT_MS,
        connectionsCheckingInterval: CHECK_MS,
      },
    });
    try {
      await new Promise<void>((resolve, reject) => {
        http.once('error', reject);
        http.listen({ host, port, exclusive: true }, resolve);
      });
      const dashboard = new Dashboard(http, { ...options, port: (http.address() as AddressInfo).port });
      http.on('error', () => {});
      return dashboard;
    } catch (error) {
      http.close();
      const details = { address: authority(host, port), reason: (error as Error).message };
      throw new AgentZipError('AZ_DASHBOARD', details, { cause: error });
    }
  }

  get port(): number {
    return this.gate.port;
  }

  /** Without the key. */
  get address(): string {
    return `http://${authority(this.gate.host, this.gate.port)}/`;
  }

  /** With the key, for a browser. */
  get url(): string {
    return `${this.address}?key=${this.gate.token}`;
  }

  /** Pages that are open. */
  get readers(): number {
    return this.events.size;
  }

  async close(): Promise<void> {
    this.end.abort();
    this.events.close();
    const closed = new Promise<void>((resolve) => this.http.close(() => resolve()));
    this.http.closeAllConnections();
    await closed;
  }

  /** Takes a look in, and tells the pages that are open. */
  look(sample: Sample): void {
    this.events.send('look', this.history.add(sample));
  }

  private async follow(look: () => Promise<Status>, intervalMs: number): Promise<void> {
    for await (const { sample, problem } of watch({ look, intervalMs, signal: this.end.signal })) {
      if (problem === null) this.look(sample);
      else this.events.send('problem', { message: problem.message });
    }
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    response.on('error', () => {});
    request.on('error', () => {});
    request.resume();
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const url = URL.canParse(request.url ?? '', this.address)
      ? new URL(request.url ?? '', this.address)
      : null;
    if (url === null) return send(request, response, 400, 'text/plain', 'not an address');
    const refusal = refusalOf(request, url, this.gate);
    if (refusal !== null) {
      for (const [name, value] of Object.entries(refusal.headers ?? {})) response.setHeader(name, value);
      return send(request, response, refusal.status, 'text/plain; charset=utf-8', `${refusal.text}\n`);
    }
    if (keyGiven(url, this.gate)) {
      const cookie = `${cookieName(this.gate.port)}=${this.gate.token}; Path=/; HttpOnly; SameSite=Strict`;
      response.setHeader('set-cookie', cookie);
    }
    this.route(url.pathname, request, response);
  }

  private route(path: string, request: IncomingMessage, response: ServerResponse): void {
    if (path === '/api/history') {
      return send(request, response, 200, 'application/json; charset=utf-8', this.history.json());
    }
    if (path === '/api/events') {
      if (this.events.full) return send(request, response, 503, 'text/plain', 'too many pages are open\n');
      if (request.method === 'HEAD') return send(request, response, 200, 'text/event-stream', '');
      return this.events.add(response);
    }
    const asset = this.assets.get(path);
    if (asset === undefined) return send(request, response, 404, 'text/plain', 'there is no such page\n');
    send(request, response, 200, asset.type, asset.body);
  }
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  type: string,
  body: string | Buffer,
): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  response.end(request.method === 'HEAD' ? undefined : body);
}
