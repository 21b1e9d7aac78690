import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { format, resolveConfig } from 'prettier';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { EVENT_TYPES, type ControllerApi } from '../src/controller/api.js';
import { AgentZipError, type ErrorCode } from '../src/errors.js';
import { packageRoot } from '../src/paths.js';
import { statusOf } from '../src/plugin/http-errors.js';
import { COMMON_ERRORS, ROUTE_FACTS } from '../src/plugin/route-table.js';
import { routeNames } from '../src/plugin/routes.js';
import { ask, Conformance, describeApi } from './support/api-description.js';
import { startControlServer, type TestServer } from './support/control-server.js';

const FILE = join(packageRoot, 'docs/openapi.json');

let conformance: Conformance;
let server: TestServer;
beforeAll(() => void (conformance = new Conformance(describeApi())));
beforeEach(async () => {
  server = await startControlServer({ maxBodyKiB: 4, requestTimeoutMs: 1_000 });
  server.controller.templates.set('t', { pid: 1 }).set('box', { pid: 2 });
  server.controller.sandboxes.set('box', { pids: [1], template: 't' });
});
afterEach(() => server.stop());

/** What a request that is right says to each route, and the method of the controller behind it. */
const REQUESTS: Record<string, { body?: unknown; calls?: keyof ControllerApi }> = {
  'PUT /v1/templates/{id}': { body: { pid: 1, tenant: 'acme' }, calls: 'putTemplate' },
  'DELETE /v1/templates/{id}': { calls: 'deleteTemplate' },
  'PUT /v1/sandboxes/{id}': { body: { pids: [1], template: 't' }, calls: 'putSandbox' },
  'GET /v1/sandboxes/{id}': { calls: 'getSandbox' },
  'GET /v1/sandboxes/{id}/explain': { calls: 'explain' },
  'DELETE /v1/sandboxes/{id}': { calls: 'deleteSandbox' },
  'POST /v1/sandboxes/{id}/events': {
    body: { type: 'llm_request_sent', expectedMs: 5, model: 'm', traceparent: 'x', tool: 't', at: 1 },
    calls: 'event',
  },
  'POST /v1/sandboxes/{id}/pre-pause': { calls: 'prePause' },
  'POST /v1/sandboxes/{id}/post-resume': { calls: 'postResume' },
  'POST /v1/sandboxes/{id}/wake': { calls: 'wake' },
  'GET /v1/status': { calls: 'status' },
  'GET /v1/healthz': {},
  'GET /v1/openapi.json': {},
  'POST /v1/disable': { calls: 'disable' },
  'POST /v1/drain': { calls: 'drain' },
  'GET /metrics': { calls: 'status' },
};

const target = (route: string): [method: string, path: string] => {
  const [method, path] = route.split(' ');
  return [method, path.replace('{id}', 'box')];
};

/** Asks the server, and lets only what is documented pass. */
async function send(method: string, path: string, body?: unknown) {
  const reply = await ask(server.socketPath, method, path, body);
  expect(conformance.answer(method, path, reply)).toBeNull();
  return reply;
}

describe('docs/openapi.json', () => {
  it('is what the tables and types of the server say; npm run docs writes it anew', async () => {
    const text = JSON.stringify(conformance.description);
    const options = await resolveConfig(FILE);
    await expect(await format(text, { ...options, parser: 'json' })).toMatchFileSnapshot(FILE);
  });

  it('is valid OpenAPI 3.1', async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(JSON.parse(JSON.stringify(conformance.description)));
    expect(valid, JSON.stringify(errors)).toBe(true);
    expect(validator.version).toBe('3.1');
  });

  it('describes every route, no other, and is tested on each', () => {
    expect(Object.keys(ROUTE_FACTS).sort()).toEqual([...routeNames].sort());
    expect(Object.keys(REQUESTS).sort()).toEqual([...routeNames].sort());
  });

  it('is served', async () => {
    const { text } = await send('GET', '/v1/openapi.json');
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(conformance.description)));
  });
});

describe.each(Object.entries(REQUESTS))('%s', (route, { body, calls }) => {
  const [method, path] = target(route);
  const facts = ROUTE_FACTS[route];

  it('answers what is documented when all is well', async () => {
    if (body !== undefined) expect(conformance.body(method, path, body)).toBeNull();
    expect((await send(method, path, body)).status).toBe(facts.status);
  });

  if (calls !== undefined)
    it('answers every error that it is documented to have', async () => {
      const codes: ErrorCode[] = [...facts.errors, 'AZ_INTERNAL', 'AZ_TIMEOUT'];
      for (const code of codes.filter((each) => each !== 'AZ_DRAINING')) {
        const error = new AgentZipError(code, {});
        const fail = (): never => {
          throw error;
        };
        if (calls === 'drain') server.controller.onDrain = async () => fail();
        else server.controller[calls as 'wake'] = fail;
        expect([code, (await send(method, path, body)).status]).toEqual([code, statusOf(error)]);
      }
    });

  it('answers a body that is wrong, or too large, as is documented', async () => {
    expect((await send(method, path, '{"a": ')).status).toBe(400);
    expect((await send(method, path, `"${'x'.repeat(5000)}"`)).status).toBe(413);
    const { status } = await send(method, path, { none: 1 });
    expect(status).toBe(facts.body === undefined ? facts.status : 400);
  });

  if (calls !== 'drain')
    it('says so while the service drains, where it must', async () => {
      server.controller.onDrain = () => new Promise(() => {});
      void server.gate.drain();
      const { status } = await send(method, path, body);
      const refused = (facts.errors as readonly string[]).includes('AZ_DRAINING');
      expect(status).toBe(refused ? 503 : facts.status);
    });
});

describe('the description and the server agree about requests', () => {
  const bodies: [route: string, body: unknown][] = [
    ['PUT /v1/templates/{id}', { pid: 1, pack: '/p' }],
    ['PUT /v1/templates/{id}', { pack: 'relative' }],
    ['PUT /v1/templates/{id}', { pack: '/p', public: true }],
    ['PUT /v1/sandboxes/{id}', {}],
    ['PUT /v1/sandboxes/{id}', { pids: [1], cgroup: 'x' }],
    ['PUT /v1/sandboxes/{id}', { pids: [1, 1] }],
    ['PUT /v1/sandboxes/{id}', { cgroup: 'a/../b' }],
    ['PUT /v1/sandboxes/{id}', { cgroup: 'a', tenant: '-' }],
    ['PUT /v1/sandboxes/{id}', { cgroup: 'a', tenant: 'acme' }],
    ['POST /v1/sandboxes/{id}/events', { type: 'lunch' }],
    ['POST /v1/sandboxes/{id}/events', { type: 'tool_end', at: -1 }],
    ['POST /v1/sandboxes/{id}/events', { type: 'tool_end', model: 1 }],
    ...EVENT_TYPES.map((type): [string, unknown] => ['POST /v1/sandboxes/{id}/events', { type }]),
  ];
  it.each(bodies)('%s %j', async (route, body) => {
    const [method, path] = target(route);
    const { status } = await send(method, path, body);
    expect(status === 400).toBe(conformance.body(method, path, body) !== null);
  });

  it('and about paths and methods that are none', async () => {
    expect((await send('GET', '/v2')).status).toBe(404);
    expect((await send('PATCH', '/v1/status')).status).toBe(405);
    expect((await send('GET', '/v1/sandboxes/a%2Fb')).status).toBe(400);
    expect((await send('GET', '/v1/sandboxes/none')).status).toBe(404);
  });

  it('names what the parser of HTTP answers before there is a route', () => {
    for (const route of routeNames) {
      const [method, path] = target(route);
      const responses = Object.keys(conformance.operation(method, path)?.operation.responses ?? {});
      expect(responses).toEqual(expect.arrayContaining(['400', '408', '413', '431', '500']));
    }
    expect(COMMON_ERRORS).toContain('AZ_INTERNAL');
  });
});

describe('the check itself', () => {
  const reply = (status: number, body: unknown) => ({
    ...{ status, type: 'application/json', text: JSON.stringify(body) },
  });
  it('reports what is not documented', async () => {
    const { text } = await send('GET', '/v1/sandboxes/box');
    const status = JSON.parse(text);
    const told = (body: unknown, code = 200) =>
      conformance.answer('GET', '/v1/sandboxes/box', reply(code, body));
    expect(told(status)).toBeNull();
    expect(told({ ...status, secret: 1 })).toMatch(/additional properties/);
    expect(told({ ...status, phase: 'asleep' })).toMatch(/phase/);
    expect(told({ ...status, pids: undefined })).toMatch(/pids/);
    expect(told(status, 201)).toMatch(/may not answer 201/);
    expect(told({ error: { code: 'AZ_USAGE', message: '', remedy: '', details: {} } }, 404)).toMatch(/code/);
    expect(conformance.answer('GET', '/v1/other', reply(200, {}))).toMatch(/not documented/);
  });
});
