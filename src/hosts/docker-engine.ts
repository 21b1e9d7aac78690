import { request, type IncomingMessage } from 'node:http';
import { AgentZipError } from '../errors.js';

const ANSWER_MS = 5000;
/** A list of some thousand containers has a few MiB. */
const MOST_BYTES = 64 << 20;
const MOST_LINE = 1 << 20;

/** A container in `GET /containers/json`: the parts that are read. */
export interface ContainerSummary {
  Id: string;
  Names: string[];
  Image: string;
  ImageID: string;
  Labels: Record<string, string> | null;
  State: string;
}

/** The same of `GET /containers/{id}/json`. */
export interface ContainerDetails {
  State: { Pid: number };
  HostConfig: { Runtime?: string };
  Config: { Healthcheck?: { Test?: string[] | null } | null };
}

/** The same of a line of `GET /events`. */
export interface EngineEvent {
  Action: string;
  Actor: { ID: string; Attributes: Record<string, string> };
  timeNano: number;
}

/** The Docker Engine API over its Unix socket, as far as it is needed: only what reads. AZ_HOST_UNREACHABLE for all that goes wrong. */
export class DockerEngine {
  constructor(private readonly socket: string) {}

  /** Those that run, frozen ones among them. */
  containers(): Promise<ContainerSummary[]> {
    return this.get<ContainerSummary[]>('/containers/json');
  }

  /** Null: there is no such container any more. */
  async inspect(id: string): Promise<ContainerDetails | null> {
    return this.get<ContainerDetails | null>(`/containers/${id}/json`, null);
  }

  /**
   * What happens to containers from `sinceNano` on (null: now), until the returned function is called. `begun` when the
   * engine listens; `failed` once, when it does no more.
   */
  events(
    sinceNano: number | null,
    on: { begun: () => void; event: (event: EngineEvent) => void; failed: (error: AgentZipError) => void },
  ): () => void {
    const query = new URLSearchParams({ filters: JSON.stringify({ type: ['container'] }) });
    if (sinceNano !== null) query.set('since', seconds(sinceNano));
    const asked = request({ socketPath: this.socket, path: `/events?${query}`, agent: false });
    let over = false;
    const fail = (reason: unknown): void => {
      if (over) return;
      over = true;
      asked.destroy();
      on.failed(this.unreachable(reason));
    };
    asked.on('error', fail).on('response', (answer) => {
      if (answer.statusCode !== 200) return fail(new Error(`it answers with status ${answer.statusCode}`));
      on.begun();
      const take = lines((line) => {
        if (!over) on.event(JSON.parse(line) as EngineEvent);
      });
      answer.setEncoding('utf8').on('data', (text: string) => {
        try {
          take(text);
        } catch (error) {
          fail(error);
        }
      });
      answer.on('error', fail).on('close', () => fail(new Error('it has ended its events')));
    });
    asked.end();
    return () => {
      over = true;
      asked.destroy();
    };
  }

  /** `absent` is what a 404 means; without it, that is an error too. */
  private async get<T>(path: string, absent?: T): Promise<T> {
    try {
      const { status, body } = await this.ask(path);
      if (status === 404 && absent !== undefined) return absent;
      if (status !== 200) throw new Error(`it answers with status ${status}`);
      return JSON.parse(body) as T;
    } catch (error) {
      throw this.unreachable(error);
    }
  }

  private ask(path: string): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(ANSWER_MS);
      const asked = request({ socketPath: this.socket, path, agent: false, signal });
      const failed = (error: Error): void =>
        reject(signal.aborted ? new Error(`no answer within ${ANSWER_MS} ms`) : error);
      asked.on('error', failed).on('response', (answer: IncomingMessage) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        answer.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > MOST_BYTES) answer.destroy(new Error(`its answer has more than ${MOST_BYTES} bytes`));
        });
        answer.on('error', failed);
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }),
        );
      });
      asked.end();
    });
  }

  private unreachable(error: unknown): AgentZipError {
    const { code, message } = error as NodeJS.ErrnoException;
    const details = { platform: 'Docker', address: this.socket, section: 'docker', reason: code ?? message };
    return new AgentZipError('AZ_HOST_UNREACHABLE', details, { cause: error });
  }
}

/** As the engine takes times: seconds with nine decimals. */
const seconds = (nano: number): string => `${Math.floor(nano / 1e9)}.${String(nano % 1e9).padStart(9, '0')}`;

/** Passes whole lines on. Throws at one that never ends. */
function lines(take: (line: string) => void): (text: string) => void {
  let rest = '';
  return (text) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    if (rest.length > MOST_LINE) throw new Error('a line of its events never ends');
    for (const line of parts) if (line.trim() !== '') take(line);
  };
}
