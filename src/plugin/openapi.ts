import { EVENT_TYPES } from '../controller/api.js';
import { AgentZipError, ERRORS, type ErrorCode } from '../errors.js';
import { version } from '../paths.js';
import { statusOf } from './http-errors.js';
import { EXACTLY_ONE, ID_PATTERN, SCHEMAS } from './requests.js';
import { COMMON_ERRORS, ROUTE_FACTS, type RouteFacts } from './route-table.js';

type Json = Record<string, unknown>;

const reference = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const jsonOf = (schema: unknown): Json => ({ 'application/json': { schema } });

/** A body as the server takes it: its schema, and what is checked besides. */
function bodySchema(name: keyof typeof SCHEMAS): Json {
  const schema: Json = { ...SCHEMAS[name] };
  if (name === 'event') {
    const properties = { ...SCHEMAS.event.properties, type: { type: 'string', enum: [...EVENT_TYPES] } };
    return { ...schema, properties };
  }
  if (!(name in EXACTLY_ONE)) return schema;
  const keys = EXACTLY_ONE[name as keyof typeof EXACTLY_ONE];
  return { ...schema, oneOf: keys.map((key) => ({ required: [key] })) };
}

function answerOf({ answer }: RouteFacts): Json {
  if (answer === 'nothing') return { description: 'Done.' };
  if (answer === 'empty')
    return { description: 'Done.', content: jsonOf({ type: 'object', additionalProperties: false }) };
  if ('type' in answer) return { description: `A ${answer.type}.`, content: jsonOf(reference(answer.type)) };
  const schema = { type: answer.text === 'application/json' ? 'object' : 'string' };
  return { description: 'The text.', content: { [answer.text]: { schema } } };
}

/** Codes by the status they are answered with. */
function byStatus(codes: readonly ErrorCode[]): Map<number, ErrorCode[]> {
  const found = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const status = statusOf(new AgentZipError(code));
    found.set(status, [...(found.get(status) ?? []), code]);
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}

function errorAnswer(codes: readonly ErrorCode[]): Json {
  const schema = {
    allOf: [
      reference('ErrorBody'),
      { properties: { error: { properties: { code: { enum: [...new Set(codes)] } } } } },
    ],
  };
  const causes = codes.map((code) => `${code}: ${ERRORS[code][0]}`);
  return { description: causes.join('\n'), content: jsonOf(schema) };
}

function operation(facts: RouteFacts): Json {
  const { summary, body, status } = facts;
  const responses: Json = { [status]: answerOf(facts) };
  for (const [code, errors] of byStatus([...COMMON_ERRORS, ...facts.errors]))
    responses[code] = errorAnswer(errors);
  // What the parser of HTTP refuses before there is a route.
  responses['408'] = errorAnswer(['AZ_TIMEOUT']);
  responses['431'] = errorAnswer(['AZ_BAD_REQUEST']);
  const takes = body !== undefined && body !== 'empty';
  return {
    summary,
    ...(takes && { requestBody: { required: true, content: jsonOf(bodySchema(body)) } }),
    responses,
  };
}

/** The control socket as an OpenAPI 3.1 document. `types`: schemas of what is answered, by the names of the types. */
export function apiDescription(types: Json): Json {
  const paths: Record<string, Json> = {};
  for (const [route, facts] of Object.entries(ROUTE_FACTS)) {
    const [method, path] = route.split(' ');
    const id = { name: 'id', in: 'path', required: true, schema: { type: 'string', pattern: ID_PATTERN } };
    paths[path] ??= path.includes('{id}') ? { parameters: [id] } : {};
    paths[path][method.toLowerCase()] = operation(facts);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'AgentZip control socket',
      version,
      description:
        'HTTP/1.1 with JSON on a Unix socket. An unknown path is answered 404 (AZ_NO_ROUTE), a method that a path does not take 405 (AZ_METHOD_NOT_ALLOWED), both with an ErrorBody. docs/api.md says more.',
    },
    servers: [{ url: 'http://agentzip', description: 'Over /run/agentzip/agentzip.sock.' }],
    paths,
    components: { schemas: types },
  };
}
