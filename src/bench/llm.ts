import { setMaxListeners } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ToolCall, Trajectory, Turn } from './workload.js';

const TOKEN_INTERVAL_MS = 50;
const WORDS =
  'let me look at the data first and then compare what each region sold over the last weeks'.split(' ');

/** What the model's server knows of a turn and the platform does not: when tokens really left. Unix ms. */
export interface ServedTurn {
  sandbox: string;
  turn: number;
  requestAt: number;
  firstTokenAt: number;
  endAt: number;
}

/**
 * Plays the language model: an HTTP server on loopback that waits as long as the trajectory says, streams tokens as
 * server-sent events, and ends with the turn's tool calls.
 */
export class LlmServer {
  readonly served: ServedTurn[] = [];
  private readonly server: Server;
  private readonly stopping = new AbortController();

  private constructor(private readonly trajectories: ReadonlyMap<string, Trajectory>) {
    setMaxListeners(0, this.stopping.signal); // every answer listens to it
    this.server = createServer((request, response) => {
      this.answer(request, response).catch(() => response.destroy());
    });
  }

  static async listen(trajectories: readonly Trajectory[]): Promise<LlmServer> {
    const llm = new LlmServer(new Map(trajectories.map((t) => [t.sandbox, t])));
    await new Promise<void>((resolve, reject) => {
      llm.server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return llm;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1/messages`;
  }

  async close(): Promise<void> {
    this.stopping.abort();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestAt = Date.now();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { sandbox, turn } = JSON.parse(Buffer.concat(chunks).toString()) as {
      sandbox: string;
      turn: number;
    };
    const plan = this.trajectories.get(sandbox)?.turns[turn];
    if (request.method !== 'POST' || plan === undefined) {
      response.writeHead(404).end();
      return;
    }
    const signal = this.stopping.signal;
    await sleep(Math.max(0, plan.firstTokenMs - (Date.now() - requestAt)), undefined, { signal });
    const firstTokenAt = Date.now();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    await this.stream(response, plan, firstTokenAt);
    this.served.push({ sandbox, turn, requestAt, firstTokenAt, endAt: Date.now() });
  }

  private async stream(response: ServerResponse, plan: Turn, from: number): Promise<void> {
    const signal = this.stopping.signal;
    const tokens = Math.max(1, Math.floor(plan.streamMs / TOKEN_INTERVAL_MS));
    for (let i = 0; i < tokens; i++) {
      response.write(`data: ${JSON.stringify({ text: WORDS[i % WORDS.length] })}\n\n`);
      await sleep(Math.max(0, from + ((i + 1) * plan.streamMs) / tokens - Date.now()), undefined, { signal });
    }
    response.end(`data: ${JSON.stringify({ calls: plan.calls })}\n\ndata: [DONE]\n\n`);
  }
}

/**
 * Asks the model for a turn. `onFirstToken` runs as soon as the first token is read, and the stream goes on behind it.
 * Returns the tool calls it asks for.
 */
export async function askModel(
  url: string,
  turn: { sandbox: string; turn: number },
  onFirstToken: () => Promise<void>,
  signal: AbortSignal,
): Promise<ToolCall[]> {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(turn), signal });
  if (!response.ok || response.body === null) throw new Error(`the model answered ${response.status}`);
  let pending = '';
  let first: Promise<void> | undefined;
  let calls: ToolCall[] = [];
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    first ??= onFirstToken();
    first.catch(() => undefined); // awaited below; until then a failure must not count as unhandled
    pending += decoder.decode(chunk as Uint8Array, { stream: true });
    const events = pending.split('\n\n');
    pending = events.pop() ?? '';
    for (const event of events) {
      const data = event.slice('data: '.length);
      if (data === '[DONE]') continue;
      calls = (JSON.parse(data) as { calls?: ToolCall[] }).calls ?? calls;
    }
  }
  await first;
  return calls;
}
