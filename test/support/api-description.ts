import { request } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { apiDescription } from '../../src/plugin/openapi.js';
import { TypeSchemas } from './type-schemas.js';

/** Where the types are declared that are answered. */
const SOURCES = ['src/controller/api.ts', 'src/plugin/routes.ts', 'src/plugin/http-errors.ts'];
const ANSWERS = ['TemplateStatus', 'SandboxStatus', 'Explanation', 'Status', 'Health', 'ErrorBody'];

interface Media {
  schema: Record<string, unknown>;
}
export interface Operation {
  summary: string;
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { description: string; content?: Record<string, Media> }>;
}
interface Description {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
}

export interface Reply {
  status: number;
  type: string;
  text: string;
}

/** What the server has to answer, made from its own tables and types. */
export function describeApi(): Description {
  const types = new TypeSchemas(SOURCES);
  for (const name of ANSWERS) types.add(name);
  return apiDescription(types.schemas) as unknown as Description;
}

/** Holds requests and answers against the description. */
export class Conformance {
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true });
  private readonly compiled = new Map<string, ValidateFunction>();

  constructor(readonly description: Description) {
    this.ajv.addSchema({ $id: 'api', components: description.components });
  }

  operation(method: string, path: string): { name: string; operation: Operation } | null {
    const [bare] = path.split('?');
    for (const [template, item] of Object.entries(this.description.paths)) {
      if (!new RegExp(`^${template.replaceAll('.', '\\.').replace('{id}', '[^/]+')}$`).test(bare)) continue;
      const operation = item[method.toLowerCase()];
      if (operation !== undefined) return { name: `${method} ${template}`, operation };
    }
    return null;
  }

  /** What is not as documented about an answer; null: nothing. */
  answer(method: string, path: string, { status, type, text }: Reply): string | null {
    const found = this.operation(method, path);
    if (found === null) {
      if (status !== 404 && status !== 405) return `${method} ${path} is not documented`;
      return this.check('ErrorBody', { $ref: 'api#/components/schemas/ErrorBody' }, JSON.parse(text));
    }
    const response = found.operation.responses[status];
    if (response === undefined) return `${found.name} may not answer ${status}: ${text}`;
    if (response.content === undefined) return text === '' ? null : `${found.name} ${status} has a body`;
    const [media] = type.split(';');
    const content = response.content[media];
    if (content === undefined) return `${found.name} ${status} may not answer ${type}`;
    const body: unknown = media === 'application/json' ? JSON.parse(text) : text;
    return this.check(`${found.name} ${status}`, content.schema, body);
  }

  /** The same of a request's body. */
  body(method: string, path: string, body: unknown): string | null {
    const found = this.operation(method, path);
    if (found === null) return `${method} ${path} is not documented`;
    const schema = found.operation.requestBody?.content['application/json'].schema;
    if (schema === undefined) return body === undefined ? null : `${found.name} takes no body`;
    return this.check(`${found.name} body`, schema, body);
  }

  private check(name: string, schema: Record<string, unknown>, value: unknown): string | null {
    let validate = this.compiled.get(name);
    if (validate === undefined) {
      const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"api#/components'));
      this.compiled.set(name, (validate = this.ajv.compile(absolute)));
    }
    return validate(value) ? null : `${name}: ${this.ajv.errorsText(validate.errors)}`;
  }
}

/** One request on a control socket. */
export function ask(socketPath: string, method: string, path: string, body?: unknown): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    // Without its length the body of a GET would be taken for the next request.
    const length = Buffer.byteLength(text ?? '');
    const headers = length === 0 ? {} : { 'content-type': 'application/json', 'content-length': length };
    const outgoing = request({ socketPath, method, path, headers }, (response) => {
      let answer = '';
      response.setEncoding('utf8').on('data', (chunk) => (answer += chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          type: response.headers['content-type'] ?? '',
          text: answer,
        }),
      );
    });
    outgoing.on('error', reject);
    outgoing.end(text);
  });
}
