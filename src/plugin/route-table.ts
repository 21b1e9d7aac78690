import type { ErrorCode } from '../errors.js';
import type { SCHEMAS } from './requests.js';

/** What a route is for, takes and answers; the OpenAPI description is made of it, and a test holds the server to it. */
export interface RouteFacts {
  summary: string;
  /** Schema of its body; without one any JSON object, which is not looked at. */
  body?: keyof typeof SCHEMAS;
  status: 200 | 202 | 204;
  /** Name of the type it answers with, `{}` when it has nothing to say, or the type of a text. */
  answer: { type: string } | { text: string } | 'nothing' | 'empty';
  /** Besides what every route may answer. */
  errors: readonly ErrorCode[];
}

/** What any request may be answered with. */
export const COMMON_ERRORS: readonly ErrorCode[] = [
  'AZ_BAD_REQUEST',
  'AZ_BAD_JSON',
  'AZ_BODY_TOO_LARGE',
  'AZ_TIMEOUT',
  'AZ_INTERNAL',
];
/** Whatever asks the pager. */
const PAGER = ['AZ_PAGER_LOST', 'AZ_PAGER_REFUSED'] as const;
const CHANGES = ['AZ_DRAINING', ...PAGER] as const;
const OF_SANDBOX = ['AZ_UNKNOWN_SANDBOX', ...CHANGES] as const;
const EMPTY = { body: 'empty', status: 200, answer: 'empty' } as const;

export const ROUTE_FACTS: Record<string, RouteFacts> = {
  'PUT /v1/templates/{id}': {
    summary: 'Register the memory that the sandboxes of one origin have in common',
    ...{ body: 'template', status: 200, answer: { type: 'TemplateStatus' } },
    errors: [
      ...CHANGES,
      ...(['AZ_NO_SUCH_PROCESS', 'AZ_OWN_PROCESS', 'AZ_FOREIGN_NAMESPACE', 'AZ_PACK_INVALID'] as const),
      ...(['AZ_PACK_WRITE', 'AZ_TEMPLATE_IN_USE', 'AZ_STORE_FULL'] as const),
    ],
  },
  'DELETE /v1/templates/{id}': {
    summary: 'Forget a template that nothing uses, and delete the pack that was captured for it',
    ...{ body: 'empty', status: 204, answer: 'nothing' },
    errors: [...CHANGES, 'AZ_UNKNOWN_TEMPLATE', 'AZ_TEMPLATE_IN_USE'],
  },
  'PUT /v1/sandboxes/{id}': {
    summary: 'Register a sandbox; the same request again changes nothing',
    ...{ body: 'sandbox', status: 200, answer: { type: 'SandboxStatus' } },
    errors: [
      ...CHANGES,
      ...(['AZ_UNKNOWN_TEMPLATE', 'AZ_NO_SUCH_PROCESS', 'AZ_NO_SUCH_CGROUP'] as const),
      ...(['AZ_FOREIGN_NAMESPACE', 'AZ_OWN_PROCESS', 'AZ_PROCESS_CLAIMED'] as const),
    ],
  },
  'GET /v1/sandboxes/{id}': {
    summary: 'What a sandbox does, owns and has out',
    ...{ status: 200, answer: { type: 'SandboxStatus' } },
    errors: ['AZ_UNKNOWN_SANDBOX', ...PAGER],
  },
  'DELETE /v1/sandboxes/{id}': {
    summary: 'Page a sandbox in and forget it',
    ...{ body: 'empty', status: 204, answer: 'nothing' },
    errors: OF_SANDBOX,
  },
  'GET /v1/sandboxes/{id}/explain': {
    summary: 'Why a sandbox is treated as it is',
    ...{ status: 200, answer: { type: 'Explanation' } },
    errors: ['AZ_UNKNOWN_SANDBOX', ...PAGER],
  },
  'POST /v1/sandboxes/{id}/events': {
    summary: 'Tell what the agent of a sandbox does',
    ...{ body: 'event', status: 202, answer: 'empty' },
    errors: ['AZ_UNKNOWN_EVENT', ...OF_SANDBOX],
  },
  'POST /v1/sandboxes/{id}/pre-pause': {
    summary: 'Bring every page back and leave the sandbox alone, before a snapshot, pause or migration',
    ...EMPTY,
    errors: [...OF_SANDBOX, 'AZ_PAUSE_WRITE'],
  },
  'POST /v1/sandboxes/{id}/post-resume': {
    summary: 'End what pre-pause began',
    ...EMPTY,
    errors: [...OF_SANDBOX, 'AZ_PAUSE_WRITE'],
  },
  'POST /v1/sandboxes/{id}/wake': {
    summary: 'Bring every page back now',
    ...EMPTY,
    errors: OF_SANDBOX,
  },
  'GET /v1/status': {
    summary: 'Everything there is to know',
    ...{ status: 200, answer: { type: 'Status' } },
    errors: PAGER,
  },
  'GET /v1/healthz': {
    summary: 'Does the service take requests?',
    ...{ status: 200, answer: { type: 'Health' } },
    errors: [],
  },
  'GET /v1/openapi.json': {
    summary: 'This description',
    ...{ status: 200, answer: { text: 'application/json' } },
    errors: [],
  },
  'POST /v1/disable': {
    summary: 'Stop compressing until the service is restarted',
    ...EMPTY,
    errors: CHANGES,
  },
  'POST /v1/drain': {
    summary: 'Page everything in, remove the device and end the service',
    ...EMPTY,
    errors: ['AZ_DRAIN_MEMORY', ...PAGER],
  },
  'GET /metrics': {
    summary: 'Figures of the status for Prometheus',
    ...{ status: 200, answer: { text: 'text/plain' } },
    errors: PAGER,
  },
};
