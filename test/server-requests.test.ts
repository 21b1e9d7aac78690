import { request } from 'node:http';
import { connect } from 'node:net';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import { ATTRIBUTES, SPAN_EVENTS, SPANS } from '../src/otel/names.js';
import { packageRoot } from '../src/paths.js';
import { routeNames } from '../src/plugin/routes.js';
import { groupId } from '../src/plugin/socket.js';
import { leaveDeadSocket } from './support/command.js';
import { startControlServer, type TestServer } from './support/control-server.js';

let server: TestServer;
beforeEach(async () => {
  server = await startControlServer({ maxBodyKiB: 4, requestTimeoutMs: 1_000 });
  server.controller.sandboxes.set('box', { pids: [1] });
});
afterEach(() => server.stop());

interface Reply {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  code?: string;
  message?: string;
}

function send(
  method: string,
  path: string,
  body?: string | Buffer,
  type = 'application/json',
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-type': type };
    const outgoing = request({ socketPath: server.socketPath, method, path, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('end', () => {
        const isJson = String(response.headers['content-type']).startsWith('application/json');
        const error = isJson ? JSON.parse(text).error : undefined;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, ...error });
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** Writes bytes to the socket as they are, and returns what comes back until the server closes. */
function raw(...parts: (string | number)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(server.socketPath);
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => (text += chunk));
    socket.on('error', (error: NodeJS.ErrnoException) => error.code !== 'ECONNRESET' && reject(error));
    socket.on('close', () => resolve(text));
    socket.on('connect', async () => {
      for (const part of parts) {
        if (typeof part === 'number') await sleep(part);
        else socket.write(part);
      }
    });
  });
}

describe('a request that is wrong gets a code and a status', () => {
  const cases: [name: string, reply: () => Promise<Reply>, status: number, code: string, message: RegExp][] =
    [
      ['no such path', () => send('GET', '/v2/status'), 404, 'AZ_NO_ROUTE', /GET \/v2\/status/],
      ['a path below a known one', () => send('GET', '/v1/status/x'), 404, 'AZ_NO_ROUTE', /not known/],
      ['wrong method', () => send('POST', '/v1/status'), 405, 'AZ_METHOD_NOT_ALLOWED', /not allowed/],
      ['unknown sandbox', () => send('GET', '/v1/sandboxes/none'), 404, 'AZ_UNKNOWN_SANDBOX', /none/],
      ['no JSON', () => send('PUT', '/v1/sandboxes/b', '{"pids": [1'), 400, 'AZ_BAD_JSON', /not JSON/],
      [
        'not UTF-8',
        () => send('PUT', '/v1/sandboxes/b', Buffer.from([0x22, 0xff, 0x22])),
        400,
        'AZ_BAD_JSON',
        /./,
      ],
      ['a list', () => send('PUT', '/v1/sandboxes/b', '[]'), 400, 'AZ_BAD_JSON', /not an object/],
      ['null', () => send('PUT', '/v1/sandboxes/b', 'null'), 400, 'AZ_BAD_JSON', /not an object/],
      [
        'a form',
        () => send('PUT', '/v1/sandboxes/b', 'a=b', 'text/plain'),
        400,
        'AZ_BAD_JSON',
        /text\/plain/,
      ],
      [
        'no body',
        () => send('PUT', '/v1/sandboxes/b'),
        400,
        'AZ_BAD_REQUEST',
        /exactly one of pids and cgroup/,
      ],
      [
        'pids and cgroup',
        () => send('PUT', '/v1/sandboxes/b', '{"pids":[1],"cgroup":"x"}'),
        ...([400, 'AZ_BAD_REQUEST', /exactly one of pids and cgroup/] as const),
      ],
      [
        'unknown template',
        () => send('PUT', '/v1/sandboxes/b', '{"pids":[1],"template":"t"}'),
        ...([404, 'AZ_UNKNOWN_TEMPLATE', /template t/] as const),
      ],
      [
        'unknown key',
        () => send('PUT', '/v1/sandboxes/b', '{"pid":1}'),
        ...([400, 'AZ_BAD_REQUEST', /^pid is not a known key$/] as const),
      ],
      [
        'a pid that is none',
        () => send('PUT', '/v1/sandboxes/b', '{"pids":[0]}'),
        ...([400, 'AZ_BAD_REQUEST', /^pids\.0 must be >= 1$/] as const),
      ],
      ['no pids', () => send('PUT', '/v1/sandboxes/b', '{"pids":[]}'), 400, 'AZ_BAD_REQUEST', /^pids /],
      [
        'a cgroup above its mount',
        () => send('PUT', '/v1/sandboxes/b', '{"cgroup":"a/../../b"}'),
        ...([400, 'AZ_BAD_REQUEST', /^cgroup /] as const),
      ],
      [
        'a tenant with a slash',
        () => send('PUT', '/v1/sandboxes/b', '{"pids":[1],"tenant":"a/b"}'),
        ...([400, 'AZ_BAD_REQUEST', /^tenant /] as const),
      ],
      [
        'an id with a slash',
        () => send('GET', '/v1/sandboxes/a%2Fb'),
        400,
        'AZ_BAD_REQUEST',
        /"a\/b" is not an id/,
      ],
      ['an id of dots', () => send('GET', '/v1/sandboxes/..'), 400, 'AZ_BAD_REQUEST', /not an id/],
      [
        'an id too long',
        () => send('GET', `/v1/sandboxes/${'x'.repeat(129)}`),
        400,
        'AZ_BAD_REQUEST',
        /not an id/,
      ],
      ['a broken escape', () => send('GET', '/v1/sandboxes/%E0%A4%A'), 400, 'AZ_BAD_REQUEST', /not an id/],
      [
        'a template from two places',
        () => send('PUT', '/v1/templates/t', '{"pid":1,"pack":"/p"}'),
        ...([400, 'AZ_BAD_REQUEST', /exactly one of pid, pack and memoryFile/] as const),
      ],
      [
        'an unknown event',
        () => send('POST', '/v1/sandboxes/box/events', '{"type":"lunch"}'),
        ...([400, 'AZ_UNKNOWN_EVENT', /lunch/] as const),
      ],
      [
        'an event without type',
        () => send('POST', '/v1/sandboxes/box/events', '{}'),
        ...([400, 'AZ_BAD_REQUEST', /type/] as const),
      ],
      [
        'an event from before time',
        () => send('POST', '/v1/sandboxes/box/events', '{"type":"tool_end","at":-1}'),
        ...([400, 'AZ_BAD_REQUEST', /^at /] as const),
      ],
      [
        'facts where none belong',
        () => send('POST', '/v1/sandboxes/box/wake', '{"now":true}'),
        ...([400, 'AZ_BAD_REQUEST', /now is not a known key/] as const),
      ],
      [
        'a body too large',
        () => send('PUT', '/v1/sandboxes/b', `{"cgroup":"${'x'.repeat(4096)}"}`),
        ...([413, 'AZ_BODY_TOO_LARGE', /4 KiB/] as const),
      ],
      [
        'a body far too large',
        () => send('PUT', '/v1/sandboxes/b', Buffer.alloc(128 << 10, 'x')),
        ...([413, 'AZ_BODY_TOO_LARGE', /4 KiB/] as const),
      ],
    ];
  it.each(cases)('%s', async (_, reply, status, code, message) => {
    const got = await reply();
    expect([got.status, got.code]).toEqual([status, code]);
    expect(got.message).toMatch(message);
    expect(JSON.parse(got.text).error.remedy).not.toBe('');
    expect(server.controller.calls).toEqual([]);
    expect(server.internalErrors).toEqual([]);
  });

  it('and names the methods that are allowed', async () => {
    expect((await send('PATCH', '/v1/sandboxes/box')).headers.allow).toBe('PUT, GET, DELETE');
  });
});

describe('bytes that are no request', () => {
  it('that are not HTTP', async () => {
    const answer = await raw('hello\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 400 .*AZ_BAD_REQUEST/s);
  });

  it('with headers without end', async () => {
    const answer = await raw(`GET /v1/status HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 431 .*AZ_BAD_REQUEST/s);
  });

  it('that come too slowly', async () => {
    const started = performance.now();
    const head = 'POST /v1/disable HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
    const [headers, body] = await Promise.all([
      raw('GET /v1/status HT'),
      raw(`${head}content-length: 20\r\n\r\n`, '{', 300, ' ', 300, ' ', 300, ' '),
    ]);
    expect(performance.now() - started).toBeLessThan(4_000);
    for (const answer of [headers, body]) expect(answer).toMatch(/^HTTP\/1\.1 408 .*AZ_TIMEOUT/s);
    expect(server.controller.calls).toEqual([]);
    expect(server.internalErrors).toEqual([]);
  });

  it('of a client that goes away in the middle', async () => {
    const socket = connect(server.socketPath);
    socket.write('PUT /v1/sandboxes/b HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"pids"');
    await sleep(50);
    socket.destroy();
    await sleep(50);
    expect(server.internalErrors).toEqual([]);
    expect((await send('GET', '/v1/healthz')).status).toBe(200);
  });
});

describe('what goes wrong inside', () => {
  it('is answered, and told to the operator', async () => {
    server.controller.wake = () => Promise.reject(new TypeError('undefined is not a sandbox'));
    const got = await send('POST', '/v1/sandboxes/box/wake');
    expect([got.status, got.code]).toEqual([500, 'AZ_INTERNAL']);
    expect(server.internalErrors.map((error) => error.message)).toEqual([
      'internal error: undefined is not a sandbox',
    ]);
  });
});

describe('a drain', () => {
  it('keeps new work out, answers reads, runs once, and reopens when it is refused', async () => {
    let refuse: (error: Error) => void = () => {};
    server.controller.onDrain = () => new Promise((_, reject) => (refuse = reject));
    const drains = [send('POST', '/v1/drain'), send('POST', '/v1/drain')];
    await expect.poll(() => server.controller.calls).toEqual(['drain']);
    await expect.poll(async () => (await send('POST', '/v1/sandboxes/box/wake')).code).toBe('AZ_DRAINING');
    expect((await send('POST', '/v1/sandboxes/box/wake')).status).toBe(503);
    expect((await send('GET', '/v1/status')).status).toBe(200);
    refuse(new AgentZipError('AZ_DRAIN_MEMORY', { neededMiB: 100, availableMiB: 10 }));
    for (const reply of await Promise.all(drains)) {
      expect([reply.status, reply.code]).toEqual([503, 'AZ_DRAIN_MEMORY']);
      expect(reply.message).toMatch(/100 MiB .* 10 MiB/);
    }
    expect((await send('POST', '/v1/sandboxes/box/wake')).status).toBe(200);

    server.controller.onDrain = async () => {};
    expect((await send('POST', '/v1/drain')).status).toBe(200);
    await server.gate.drained;
  });

  it('is answered before the server closes, and a kept connection does not hold it open', async () => {
    await server.client.status();
    const drained = server.client.drain();
    await server.gate.drained;
    const closing = performance.now();
    await Promise.all([drained, server.server.close()]);
    expect(performance.now() - closing).toBeLessThan(3_000);
    expect(existsSync(server.socketPath)).toBe(false);
  });
});

describe('metrics', () => {
  it('are text that Prometheus reads', async () => {
    server.controller.sandboxes.set('b"o\\x', { pids: [2], tenant: 'acme' });
    const got = await send('GET', '/metrics?x=1');
    expect(got.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    const lines = got.text.trimEnd().split('\n');
    for (const line of lines) {
      expect(line).toMatch(
        /^(# (HELP|TYPE) (agentzip_\w+|target_info) .+|(agentzip_\w+|target_info)(\{(\w+="(\\.|[^"\\])*",?)*\})? -?[\d.]+)$/,
      );
    }
    expect(lines).toContain('agentzip_memory_owned_bytes{sandbox_id="box",agentzip_tenant_id="box"} 4194304');
    expect(lines).toContain(
      'agentzip_memory_owned_bytes{sandbox_id="b\\"o\\\\x",agentzip_tenant_id="acme"} 4194304',
    );
    expect(lines).toContain('agentzip_pages{agentzip_encoding="delta"} 4');
    expect(lines).toContain('# TYPE agentzip_pages_corrupt_total counter');
    const types = lines.filter((line) => line.startsWith('# TYPE')).map((line) => line.split(' ')[2]);
    expect(new Set(types).size).toBe(types.length);
  });
});

describe('the socket', () => {
  it('is for its owner alone, or for a group too', async () => {
    expect(statSync(server.socketPath).mode & 0o777).toBe(0o600);
    const gid = groupId('nogroup');
    const other = await startControlServer({ mode: 0o660, gid });
    try {
      const { mode, gid: owner } = statSync(other.socketPath);
      expect([mode & 0o777, owner]).toEqual([0o660, gid]);
    } finally {
      await other.stop();
    }
    expect(process.umask()).not.toBe(0o777);
    expect(() => groupId('no-such-group')).toThrow(expect.objectContaining({ code: 'AZ_GROUP_UNKNOWN' }));
  });

  it('replaces one that a dead instance left, but nothing that is no socket', async () => {
    const socketPath = join(server.folder, 'dead.sock');
    leaveDeadSocket(socketPath);
    expect(existsSync(socketPath)).toBe(true);
    const next = await startControlServer({ socketPath });
    await next.stop();

    const file = join(server.folder, 'precious');
    writeFileSync(file, 'text');
    await expect(startControlServer({ socketPath: file })).rejects.toMatchObject({ code: 'AZ_RUNTIME_DIR' });
    expect(readFileSync(file, 'utf8')).toBe('text');
  });
});

describe('docs/api.md', () => {
  it('describes every route, and no others', () => {
    const page = readFileSync(join(packageRoot, 'docs/api.md'), 'utf8');
    const headings = [...page.matchAll(/^### `((?:GET|PUT|POST|DELETE) [^`]+)`$/gm)].map(([, name]) => name);
    expect(headings.sort()).toEqual([...routeNames].sort());
  });

  it('describes every attribute and event of the spans', () => {
    const page = readFileSync(join(packageRoot, 'docs/api.md'), 'utf8');
    const telemetry = page.slice(page.indexOf('## Telemetry'));
    // Encodings are told in metrics alone.
    const attributes = Object.values(ATTRIBUTES).filter((name) => name !== ATTRIBUTES.encoding);
    // A row may name `agentzip.window.expected_ms` and then only `.predicted_ms`.
    const named = (name: string): boolean =>
      telemetry.includes(`\`${name}\``) || telemetry.includes(`\`${name.slice(name.lastIndexOf('.'))}\``);
    expect([...attributes, ...SPAN_EVENTS].filter((name) => !named(name))).toEqual([]);
    for (const span of Object.values(SPANS)) expect(telemetry).toContain(`\`${span}\``);
  });
});
