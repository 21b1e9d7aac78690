import { readFileSync } from 'node:fs';
import { isIP, isIPv6 } from 'node:net';
import { isAbsolute, normalize } from 'node:path';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { packageRoot } from '../paths.js';
import type { PartialPolicy } from './policy.js';

/** The part of JSON Schema that the policy's schema uses. */
export interface SchemaNode {
  description?: string;
  type?: string | string[];
  enum?: (string | number)[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxProperties?: number;
  maxItems?: number;
  minProperties?: number;
  minLength?: number;
  required?: string[];
  $ref?: string;
  markdownDescription?: string;
  items?: SchemaNode;
  format?: string;
  pattern?: string;
  properties?: Record<string, SchemaNode>;
  additionalProperties?: boolean | SchemaNode;
  propertyNames?: SchemaNode;
}

const isHttpUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && search === '' && hash === '';
};

const isHost = (host: string): boolean =>
  isIP(host) !== 0 || (/^(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/i.test(host) && !/^[\d.]+$/.test(host));

function isEndpoint(text: string): boolean {
  if (isHost(text)) return true;
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
  if (port === undefined || Number(port) < 1 || Number(port) > 65535) return false;
  return host.startsWith('[')
    ? isIPv6(host.slice(1, -1)) && host.endsWith(']')
    : isHost(host) && !isIPv6(host);
}

function isRegularExpression(text: string): boolean {
  try {
    return new RegExp(text, 'u').source !== '';
  } catch {
    return false;
  }
}

/** Formats of string values: what is allowed, in words, and the test. */
const FORMATS: Record<string, { allowed: string; test: (text: string) => boolean }> = {
  'absolute-path': {
    allowed: 'an absolute path',
    test: (text) => isAbsolute(text) && !text.includes('\0') && normalize(text) === text,
  },
  'http-url': { allowed: 'an http:// or https:// URL without query', test: isHttpUrl },
  // The owner must be able to connect; other users of the host must not.
  'socket-mode': {
    allowed: 'octal in quotes: "0600", or "0660" with server.group',
    test: (text) => /^0?6[06]0$/.test(text),
  },
  endpoint: { allowed: 'host, host:port, an address, or [IPv6 address]:port', test: isEndpoint },
  'cgroup-glob': {
    allowed: 'a relative path, as agents/*',
    test: (text) =>
      /^[^/\0]+(\/[^/\0]+)*$/.test(text) && !text.split('/').some((part) => /^\.{1,2}$/.test(part)),
  },
  selector: {
    allowed: 'name:GLOB, image:GLOB, label:KEY or label:KEY=GLOB',
    test: (text) => /^((name|image):.+|label:[^=]+(=.*)?)$/s.test(text),
  },
  'regular-expression': { allowed: 'a regular expression', test: isRegularExpression },
  name: { allowed: 'a name', test: (text) => text !== '' && !text.includes('\0') },
  glob: { allowed: 'a pattern: * for any characters, ? for one', test: (text) => text.length > 0 },
  'group-name': {
    allowed: 'the name of a group',
    test: (text) => /^[a-z_][a-z0-9_-]*\$?$/.test(text),
  },
};

export const schemaFile = `${packageRoot}/src/policy/policy.schema.json`;

let compiled: { schema: SchemaNode; validate: ValidateFunction<PartialPolicy> } | undefined;

function load(): NonNullable<typeof compiled> {
  if (compiled) return compiled;
  const schema = JSON.parse(readFileSync(schemaFile, 'utf8')) as SchemaNode;
  const ajv = new Ajv({ allErrors: true, verbose: true, allowUnionTypes: true });
  // What the reference page says besides; editors show it.
  ajv.addKeyword('markdownDescription');
  for (const [name, { test }] of Object.entries(FORMATS)) ajv.addFormat(name, test);
  return (compiled = { schema, validate: ajv.compile<PartialPolicy>(schema) });
}

/** Everything wrong with a parsed policy file; empty when it is valid. */
export function schemaErrors(value: unknown): ErrorObject[] {
  const { validate } = load();
  return validate(value) ? [] : [...(validate.errors ?? [])];
}

/** Follows a reference to another key: what an override may set is what the key itself may be. */
function resolved(node: SchemaNode): SchemaNode {
  if (node.$ref === undefined) return node;
  const path = node.$ref.split('/').filter((part) => part !== '#' && part !== 'properties');
  return { ...schemaAt(path), ...node };
}

/** Schema of the value at `path`, or undefined for a key that does not exist. */
export function schemaAt(path: readonly string[]): SchemaNode | undefined {
  let node: SchemaNode | undefined = load().schema;
  for (const key of path) {
    const more: boolean | SchemaNode | undefined = node?.items ?? node?.additionalProperties;
    const next: SchemaNode | undefined =
      node?.properties?.[key] ?? (typeof more === 'object' ? more : undefined);
    node = next === undefined ? undefined : resolved(next);
  }
  return node;
}

const TYPE_NAMES: Record<string, string> = {
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  string: 'a text',
  null: 'null',
};

/** What a key takes, in words. */
export function allowedValues(node: SchemaNode): string {
  if (node.enum) return node.enum.join(', ');
  if (node.properties) return `the keys ${Object.keys(node.properties).join(', ')}`;
  if (node.items) return `a list of at most ${node.maxItems}, each ${allowedValues(node.items)}`;
  if (node.format === 'glob') return `a pattern, at most ${node.maxLength} characters`;
  if (node.type === 'object') return `at most ${node.maxProperties} names, each with a text`;
  const types = [node.type ?? []].flat();
  const words = types.map((type) => {
    if (type === 'string' && node.format) return FORMATS[node.format].allowed;
    return TYPE_NAMES[type] ?? type;
  });
  const range = node.minimum === undefined ? '' : ` from ${node.minimum} to ${node.maximum}`;
  const length = node.maxLength === undefined ? '' : `, at most ${node.maxLength} characters`;
  return words.join(' or ') + range + length;
}
