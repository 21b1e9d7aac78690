import { Agent, request } from 'node:http';
import type {
  ControllerApi,
  Explanation,
  HostEvent,
  SandboxSpec,
  SandboxStatus,
  Status,
  TemplateSpec,
  TemplateStatus,
} from '../controller/api.js';
import { AgentZipError } from '../errors.js';
import { fromErrorBody } from './http-errors.js';
import type { Health } from './routes.js';

export type * from '../controller/api.js';

/** Answers that page memory in or out take long on a big sandbox; the others are a matter of milliseconds. */
const TIMEOUT_MS = 30_000;
const PAGING_TIMEOUT_MS = 10 * 60_000;
const DRAIN_TIMEOUT_MS = 30 * 60_000;
const MAX_SOCKETS = 16;

/** Every method of the controller, as a promise. */
type Remote = {
  [Method in keyof ControllerApi]: (
    ...args: Parameters<ControllerApi[Method]>
  ) => Promise<Awaited<ReturnType<ControllerApi[Method]>>>;
};

interface Call {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  path: string;
  body?: unknown;
  timeoutMs?: number;
}

/** The service closed a kept connection just before a request went out on it: nothing was read of it. */
class StaleConnection extends Error {}

/**
 * A host's end of the control socket. Every method rejects with the AgentZipError that the service answered;
 * AZ_NOT_RUNNING when nobody listens, AZ_ACCESS_DENIED without the right to connect, AZ_TIMEOUT when no answer comes.
 */
export class AgentZipClient implements Remote {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS });

  constructor(readonly socketPath: string) {}

  putTemplate(id: string, spec: TemplateSpec): Promise<TemplateStatus> {
    const path = `/v1/templates/${encodeURIComponent(id)}`;
    return this.call({ method: 'PUT', path, body: spec, timeoutMs: PAGING_TIMEOUT_MS });
  }

  deleteTemplate(id: string): Promise<void> {
    return this.call({ method: 'DELETE', path: `/v1/templates/${encodeURIComponent(id)}` });
  }

  putSandbox(id: string, spec: SandboxSpec): Promise<SandboxStatus> {
    return this.call({ method: 'PUT', path: sandboxPath(id), body: spec });
  }

  getSandbox(id: string): Promise<SandboxStatus> {
    return this.call({ method: 'GET', path: sandboxPath(id) });
  }

  explain(id: string): Promise<Explanation> {
    return this.call({ method: 'GET', path: sandboxPath(id, 'explain') });
  }

  deleteSandbox(id: string): Promise<void> {
    return this.call({ method: 'DELETE', path: sandboxPath(id), timeoutMs: PAGING_TIMEOUT_MS });
  }

  async event(id: string, event: HostEvent): Promise<void> {
    await this.call({ method: 'POST', path: sandboxPath(id, 'events'), body: event });
  }

  async prePause(id: string): Promise<void> {
    await this.call({
      method: 'POST',
      path: sandboxPath(id, 'pre-pause'),
      timeoutMs: PAGING_TIMEOUT_MS,
    });
  }

  async postResume(id: string): Promise<void> {
    await this.call({ method: 'POST', path: sandboxPath(id, 'post-resume') });
  }

  async wake(id: string): Promise<void> {
    await this.call({ method: 'POST', path: sandboxPath(id, 'wake'), timeoutMs: PAGING_TIMEOUT_MS });
  }

  status(): Promise<Status> {
    return this.call({ method: 'GET', path: '/v1/status' });
  }

  async disable(): Promise<void> {
    await this.call({ method: 'POST', path: '/v1/disable' });
  }

  /** Resolves when everything is paged in; the service exits right after. */
  async drain(): Promise<void> {
    await this.call({ method: 'POST', path: '/v1/drain', timeoutMs: DRAIN_TIMEOUT_MS });
  }

  health(): Promise<Health> {
    return this.call({ method: 'GET', path: '/v1/healthz' });
  }

  /** Closes the kept connections. The client may still be used. */
  close(): void {
    this.agent.destroy();
  }

  private async call<T>(call: Call): Promise<T> {
    const { status, text } = await this.exchange(call, this.agent).catch((error: unknown) => {
      if (error instanceof StaleConnection) return this.exchange(call, false);
      throw error;
    });
    const body = text === '' ? undefined : parsed(text);
    if (status < 200 || status > 299) throw fromErrorBody(body, status);
    return body as T;
  }

  private exchange(
    { method, path, body, timeoutMs = TIMEOUT_MS }: Call,
    agent: Agent | false,
  ): Promise<{ status: number; text: string }> {
    const payload = body === undefined ? '' : JSON.stringify(body);
    const headers = payload === '' ? {} : { 'content-type': 'application/json' };
    const options = { socketPath: this.socketPath, agent, method, path, headers };
    return new Promise((resolve, reject) => {
      const fail = (error: NodeJS.ErrnoException): void => {
        const stale = outgoing.reusedSocket && error.code === 'ECONNRESET';
        reject(stale ? new StaleConnection() : this.explained(error));
      };
      const outgoing = request(options, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', fail);
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() });
        });
      });
      const timer = setTimeout(() => {
        const details = { what: `${method} ${path}`, seconds: timeoutMs / 1000 };
        outgoing.destroy(new AgentZipError('AZ_TIMEOUT', { ...details, remedy: 'see agentzip status' }));
      }, timeoutMs);
      outgoing.on('error', fail);
      outgoing.on('close', () => clearTimeout(timer));
      outgoing.end(payload);
    });
  }

  private explained(error: NodeJS.ErrnoException): Error {
    const details = { socket: this.socketPath, uid: process.getuid?.() ?? -1 };
    const gone = ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOTDIR'].includes(error.code ?? '');
    if (gone) return new AgentZipError('AZ_NOT_RUNNING', details, { cause: error });
    if (error.code === 'EACCES') return new AgentZipError('AZ_ACCESS_DENIED', details, { cause: error });
    return error;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const sandboxPath = (id: string, action = ''): string =>
  `/v1/sandboxes/${encodeURIComponent(id)}${action === '' ? '' : `/${action}`}`;
