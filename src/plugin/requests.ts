import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { EVENT_TYPES, type HostEvent, type SandboxSpec, type TemplateSpec } from '../controller/api.js';
import { AgentZipError } from '../errors.js';

/** Ids of sandboxes, templates and tenants. No slash: ids become parts of trust domains and file names. */
export const ID_PATTERN = '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$';

/** Ids of sandboxes that an adapter has found: `ADAPTER:NAME`. No host may give such a one. */
const FOUND_PREFIX = '([a-z][a-z0-9]{0,15}:)?';

/** Largest pid the kernel gives (PID_MAX_LIMIT). */
const MAX_PID = 4_194_304;
const MAX_ROOT_PIDS = 4096;
const MAX_EXPECTED_MS = 24 * 3600 * 1000;
const ABSOLUTE_PATH = { type: 'string', pattern: '^/[^\\u0000]*$', maxLength: 4096 };
const ID = { type: 'string', pattern: ID_PATTERN };

/** Bodies of requests, as JSON Schemas. docs/api.md describes them. */
export const SCHEMAS = {
  template: {
    type: 'object',
    additionalProperties: false,
    properties: {
      tenant: ID,
      public: { type: 'boolean' },
      pid: { type: 'integer', minimum: 1, maximum: MAX_PID },
      pack: ABSOLUTE_PATH,
      memoryFile: ABSOLUTE_PATH,
    },
  },
  sandbox: {
    type: 'object',
    additionalProperties: false,
    properties: {
      template: ID,
      tenant: ID,
      pids: {
        type: 'array',
        minItems: 1,
        maxItems: MAX_ROOT_PIDS,
        uniqueItems: true,
        items: { type: 'integer', minimum: 1, maximum: MAX_PID },
      },
      cgroup: {
        type: 'string',
        minLength: 1,
        maxLength: 4096,
        pattern: '^(?!.*(^|/)\\.\\.(/|$))[^\\u0000]*$',
      },
      mode: { enum: ['reclaim', 'observe'] },
    },
  },
  event: {
    type: 'object',
    additionalProperties: false,
    required: ['type'],
    properties: {
      type: { type: 'string' },
      at: { type: 'number', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
      expectedMs: { type: 'number', minimum: 0, maximum: MAX_EXPECTED_MS },
      model: { type: 'string', minLength: 1, maxLength: 256 },
      traceparent: { type: 'string', maxLength: 512 },
      tool: { type: 'string', minLength: 1, maxLength: 128 },
    },
  },
  empty: { type: 'object', additionalProperties: false },
} as const;

/** Of these keys a body has exactly one. */
export const EXACTLY_ONE = { template: ['pid', 'pack', 'memoryFile'], sandbox: ['pids', 'cgroup'] } as const;

const ajv = new Ajv({ strict: true });
const validators = new Map<keyof typeof SCHEMAS, ValidateFunction>();

function validate(schema: keyof typeof SCHEMAS, body: unknown): void {
  let validator = validators.get(schema);
  if (!validator) validators.set(schema, (validator = ajv.compile(SCHEMAS[schema])));
  if (!validator(body)) throw new AgentZipError('AZ_BAD_REQUEST', { what: describe(validator.errors ?? []) });
}

/** The first error of ajv as a sentence about a key of the body. */
function describe([error]: ErrorObject[]): string {
  const key = error.instancePath.slice(1).replaceAll('/', '.') || 'the body';
  if (error.keyword === 'additionalProperties') {
    const parent = error.instancePath === '' ? '' : `${key}.`;
    return `${parent}${error.params.additionalProperty} is not a known key`;
  }
  return `${key} ${error.message}`;
}

const exactlyOne = (schema: keyof typeof EXACTLY_ONE, body: Record<string, unknown>): void => {
  const keys = EXACTLY_ONE[schema];
  if (keys.filter((key) => body[key] !== undefined).length === 1) return;
  const names = `${keys.slice(0, -1).join(', ')} and ${keys.at(-1)}`;
  throw new AgentZipError('AZ_BAD_REQUEST', { what: `the body needs exactly one of ${names}` });
};

/** Errors of all of these: AZ_BAD_REQUEST. */
export function templateSpec(body: unknown): TemplateSpec {
  validate('template', body);
  exactlyOne('template', body as Record<string, unknown>);
  return body as TemplateSpec;
}

export function sandboxSpec(body: unknown): SandboxSpec {
  validate('sandbox', body);
  exactlyOne('sandbox', body as Record<string, unknown>);
  return body as SandboxSpec;
}

/** Also AZ_UNKNOWN_EVENT. */
export function hostEvent(body: unknown): HostEvent {
  validate('event', body);
  const { type } = body as { type: string };
  if (!(EVENT_TYPES as readonly string[]).includes(type)) {
    throw new AgentZipError('AZ_UNKNOWN_EVENT', { type: type.slice(0, 64), known: EVENT_TYPES.join(', ') });
  }
  return body as HostEvent;
}

/** For requests that carry no facts. */
export function emptyBody(body: unknown): void {
  validate('empty', body);
}

const idFormat = new RegExp(ID_PATTERN.replace('^', `^${FOUND_PREFIX}`));

/** An id out of a path, percent-decoded. */
export function checkedId(encoded: string): string {
  let id: string;
  try {
    id = decodeURIComponent(encoded);
  } catch {
    id = encoded;
  }
  if (idFormat.test(id)) return id;
  const what = `${JSON.stringify(id.slice(0, 160))} is not an id: 1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or digit`;
  throw new AgentZipError('AZ_BAD_REQUEST', { what });
}
