import { readFileSync } from 'node:fs';
import type { ControllerApi } from '../controller/api.js';
import { AgentZipError } from '../errors.js';
import { packageRoot, version } from '../paths.js';
import type { DrainGate } from './drain-gate.js';
import { METRICS_CONTENT_TYPE, prometheusText } from './prometheus.js';
import { checkedId, emptyBody, hostEvent, sandboxSpec, templateSpec } from './requests.js';

export interface Answer {
  status: number;
  /** A value to send as JSON; undefined for no body. */
  json?: unknown;
  /** Or text of this type. */
  text?: { type: string; body: string };
}

/** Answer of `GET /v1/healthz`. */
export interface Health {
  status: 'ok';
  version: string;
  pid: number;
}

/** What the routes act on. */
export interface Service {
  api: ControllerApi;
  gate: DrainGate;
}

type Handler = (api: ControllerApi, id: string, body: unknown, gate: DrainGate) => Answer | Promise<Answer>;

export interface Route {
  /** May be answered while AgentZip drains. */
  readOnly: boolean;
  handle: Handler;
}

const openapiText = (): string => readFileSync(`${packageRoot}/docs/openapi.json`, 'utf8');

const ok = (json: unknown = {}): Answer => ({ status: 200, json });

/** For requests without facts in their body. */
const act =
  (action: (api: ControllerApi, id: string, gate: DrainGate) => unknown): Handler =>
  async (api, id, body, gate) => {
    emptyBody(body);
    await action(api, id, gate);
    return ok();
  };

const reads = (handle: Handler): Route => ({ readOnly: true, handle });
const writes = (handle: Handler): Route => ({ readOnly: false, handle });

/** Path, with `{id}` for an id, and the methods it takes. */
const ROUTES: Record<string, Record<string, Route>> = {
  '/v1/templates/{id}': {
    PUT: writes(async (api, id, body) => ok(await api.putTemplate(id, templateSpec(body)))),
    DELETE: writes(async (api, id, body) => {
      emptyBody(body);
      await api.deleteTemplate(id);
      return { status: 204 };
    }),
  },
  '/v1/sandboxes/{id}': {
    PUT: writes(async (api, id, body) => ok(await api.putSandbox(id, sandboxSpec(body)))),
    GET: reads(async (api, id) => ok(await api.getSandbox(id))),
    DELETE: writes(async (api, id, body) => {
      emptyBody(body);
      await api.deleteSandbox(id);
      return { status: 204 };
    }),
  },
  '/v1/sandboxes/{id}/explain': { GET: reads(async (api, id) => ok(await api.explain(id))) },
  '/v1/sandboxes/{id}/events': {
    POST: writes((api, id, body) => {
      api.event(id, hostEvent(body));
      return { status: 202, json: {} };
    }),
  },
  '/v1/sandboxes/{id}/pre-pause': { POST: writes(act((api, id) => api.prePause(id))) },
  '/v1/sandboxes/{id}/post-resume': { POST: writes(act((api, id) => api.postResume(id))) },
  '/v1/sandboxes/{id}/wake': { POST: writes(act((api, id) => api.wake(id))) },
  '/v1/status': { GET: reads(async (api) => ok(await api.status())) },
  '/v1/healthz': { GET: reads(() => ok({ status: 'ok', version, pid: process.pid } satisfies Health)) },
  '/v1/openapi.json': {
    GET: reads(() => ({ status: 200, text: { type: 'application/json', body: openapiText() } })),
  },
  '/v1/disable': { POST: writes(act((api) => api.disable())) },
  '/v1/drain': { POST: reads(act((_api, _id, gate) => gate.drain())) },
  '/metrics': {
    GET: reads(async (api) => {
      const body = prometheusText(await api.status());
      return { status: 200, text: { type: METRICS_CONTENT_TYPE, body } };
    }),
  },
};

const table = Object.entries(ROUTES).map(([path, methods]) => ({
  pattern: new RegExp(`^${path.replace('{id}', '([^/]+)')}$`),
  methods,
}));

/** Every route as `METHOD path`, for the documentation's test. */
export const routeNames: readonly string[] = Object.entries(ROUTES).flatMap(([path, methods]) =>
  Object.keys(methods).map((method) => `${method} ${path}`),
);

/** Who answers `method path`. Errors: AZ_NO_ROUTE, AZ_METHOD_NOT_ALLOWED, AZ_BAD_REQUEST for an id that is none. */
export function findRoute(method: string, path: string): { route: Route; id: string } {
  for (const { pattern, methods } of table) {
    const match = pattern.exec(path);
    if (!match) continue;
    const route = methods[method];
    if (!route) {
      const allowed = Object.keys(methods).join(', ');
      throw new AgentZipError('AZ_METHOD_NOT_ALLOWED', { method, path, allowed });
    }
    return { route, id: match[1] === undefined ? '' : checkedId(match[1]) };
  }
  throw new AgentZipError('AZ_NO_ROUTE', { method, path: path.slice(0, 200) });
}
