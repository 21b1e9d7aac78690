import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http';
import { createSecureServer, type Http2ServerResponse } from 'node:http2';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Observer } from '../src/bench/detect/observer.js';
import { Probes } from '../src/telemetry/probes.js';
import { probesMissing } from './fixtures/toucher.js';
import { Python } from './support/python.js';
import { selfSigned } from './support/tls.js';

const TAG = 3;
/** Of loopback, and nobody else's: TLS is expected at port 443 alone. */
const TLS_HOST = '127.8.4.43';
const credentials = selfSigned();

/** A model that answers a request when it is told to, in pieces. */
class Model {
  private answers: ServerResponse[] = [];

  constructor(readonly server: Server) {}

  static readonly answer = (model: () => Model) => (request: IncomingMessage, response: ServerResponse) => {
    request.resume().on('end', () => model().answers.push(response));
  };

  async listen(host: string, port = 0): Promise<URL> {
    this.server.listen(port, host);
    await once(this.server, 'listening');
    return new URL(`http://${host}:${(this.server.address() as AddressInfo).port}/`);
  }

  /** The request that came last. */
  async next(): Promise<ServerResponse> {
    await expect.poll(() => this.answers.length, { timeout: 10_000 }).toBeGreaterThan(0);
    return this.answers.pop()!;
  }
}

describe.skipIf(probesMissing() !== null)('a sandbox without hooks', () => {
  let probes: Probes;
  let observer: Observer;
  let python: Python;
  let model: Model;
  beforeEach(async () => {
    probes = Probes.load();
    observer = new Observer(probes);
    python = await Python.start();
    observer.add(TAG, [python.pid]);
    model = new Model(createHttp(Model.answer(() => model)));
  });
  afterEach(async () => {
    await python.stop();
    model.server.close();
    observer.close();
    probes.close();
  });

  const phase = (): string => observer.timelines.get(TAG)!.phaseAt(Infinity);
  const becomes = (name: string): Promise<void> =>
    expect.poll(phase, { timeout: 15_000, interval: 2 }).toBe(name);
  /** Python asks with a prompt, and goes on when it has the answer. */
  const asks = (client: string): Promise<string> =>
    python.run(
      `globals().update(h=globals().get('h') or ${client}) or h.request('POST', '/v1', b'p' * 9000) or len(h.getresponse().read())`,
    );

  async function turn(answered: Promise<string>): Promise<void> {
    const answer = await model.next();
    await becomes('llm_wait');
    await sleep(200);
    expect(phase()).toBe('llm_wait');
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    answer.write(`data: ${'first token '.repeat(10)}\n\n`);
    await becomes('llm_streaming');
    answer.end('data: last\n\n');
    await answered;
  }

  it('waits from its request to the first token, and runs a tool from the fork on', async () => {
    const url = await model.listen('127.0.0.1');
    observer.model(url);
    const client = `__import__('http.client').client.HTTPConnection('${url.hostname}', ${url.port})`;
    for (let i = 0; i < 2; i++) {
      await turn(asks(client));
      const tool = python.run(`os.system('sleep 0.3')`);
      await becomes('tool_running');
      await tool;
    }
    await becomes('idle');
  }, 60_000);

  it.skipIf(credentials === null)(
    'does so over TLS, new connection or kept',
    async () => {
      model = new Model(
        createHttps(
          credentials!,
          Model.answer(() => model),
        ),
      );
      observer.model(await model.listen(TLS_HOST, 443));
      const ssl = "__import__('ssl')._create_unverified_context()";
      const client = `__import__('http.client').client.HTTPSConnection('${TLS_HOST}', 443, context=${ssl})`;
      // The handshake of the first is no request, and the session tickets are no answer.
      await turn(asks(client));
      await turn(asks(client));
      await python.run('h.close()');
      await turn(asks(client));
    },
    60_000,
  );

  it.skipIf(credentials === null)(
    'does so over HTTP/2, past pings and window updates',
    async () => {
      const answers: Http2ServerResponse[] = [];
      const server = createSecureServer(credentials!, (request, response) => {
        request.resume().on('end', () => answers.push(response));
      });
      model = new Model(server);
      observer.model(await model.listen(TLS_HOST, 443));
      const fixture = new URL('fixtures/http2-agent.mjs', import.meta.url).pathname;
      const agent = spawn(process.execPath, [fixture, `https://${TLS_HOST}`], {
        stdio: ['pipe', 'pipe', 'inherit'],
        timeout: 50_000,
      });
      try {
        observer.add(TAG, [agent.pid!]);
        const lines = createInterface({ input: agent.stdout })[Symbol.asyncIterator]();
        const says = async (line: string): Promise<void> => expect((await lines.next()).value).toBe(line);
        await says('ready');
        for (let i = 0; i < 5; i++) {
          agent.stdin.write('ping\n');
          await says('pong');
          await sleep(60);
        }
        expect(observer.timelines.get(TAG)!.within('llm_wait', Infinity)).toEqual([]);
        // Half a megabyte: the server must widen its windows before all of it is sent, and again after.
        for (let turn = 0; turn < 2; turn++) {
          agent.stdin.write('ask 500000\n');
          await becomes('llm_wait');
          await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(turn + 1);
          // What a ping brings back is no answer.
          agent.stdin.write('ping\n');
          await says('pong');
          await sleep(200);
          expect(phase()).toBe('llm_wait');
          answers[turn].write('d'.repeat(300));
          await becomes('llm_streaming');
          answers[turn].end();
          await says('answer 300');
          await becomes('idle');
        }
      } finally {
        agent.kill('SIGKILL');
      }
    },
    60_000,
  );

  it('is in a tool from a request at an inbound port to the quiet after the answer', async () => {
    const port = Number(
      await python.run(
        "globals().update(l=__import__('socket').create_server(('127.0.0.1', 0))) or l.getsockname()[1]",
      ),
    );
    probes.addInbound(port);
    const served = python.run('globals().update(c=l.accept()[0]) or len(c.recv(9000))');
    const call = fetch(`http://127.0.0.1:${port}/run`).then((response) => response.text());
    await served;
    await becomes('tool_running');
    await sleep(1500);
    expect(phase()).toBe('tool_running');
    await python.run(String.raw`c.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')`);
    expect(await call).toBe('ok');
    await becomes('llm_wait');
  }, 60_000);
});
