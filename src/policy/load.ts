import type { ErrorObject } from 'ajv';
import { AgentZipError } from '../errors.js';
import { withDefaults } from './defaults.js';
import { nearest } from './nearest.js';
import type { PartialPolicy, Policy } from './policy.js';
import { allowedValues, schemaAt, schemaErrors } from './schema.js';
import { PolicySource } from './source.js';

/**
 * The policy in `file` over the defaults; without a file, the defaults.
 * Errors: AZ_POLICY_READ, AZ_POLICY_SYNTAX, AZ_POLICY_INVALID; the first in the file's order.
 */
export function loadPolicy(file?: string): Policy {
  if (file === undefined) return withDefaults({});
  return checkedPolicy(PolicySource.read(file));
}

/** The same for text that is already in memory; `name` stands for the file in errors. */
export function parsePolicy(text: string, name = 'policy'): Policy {
  return checkedPolicy(PolicySource.parse(name, text));
}

interface Problem {
  path: string[];
  reason: string;
  allowed: string;
}

function checkedPolicy(source: PolicySource): Policy {
  const problems = schemaErrors(source.value).map(problemOf);
  const given = problems.length === 0 ? (source.value as PartialPolicy) : {};
  const policy = withDefaults(structuredClone(given));
  if (problems.length === 0) problems.push(...contradictions(policy));
  const located = problems.map((problem) => ({ ...problem, line: source.line(problem.path) }));
  located.sort((a, b) => a.line - b.line);
  const first = located[0];
  if (!first) {
    policy.overrides.forEach((override, i) => {
      override.at = `${source.file}:${source.line(['overrides', String(i)])}`;
    });
    return policy;
  }
  throw new AgentZipError('AZ_POLICY_INVALID', {
    file: source.file,
    line: first.line,
    key: first.path.join('.') || 'the policy',
    reason: first.reason,
    allowed: first.allowed,
  });
}

/** A JSON pointer's parts. */
const parts = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replace(/~1/g, '/').replace(/~0/g, '~'));

/** A value, short enough for one line of an error. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'a section';
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function problemOf(error: ErrorObject): Problem {
  const path = parts(error.instancePath);
  const node = schemaAt(path) ?? {};
  if (error.keyword === 'additionalProperties') {
    const name = String(error.params.additionalProperty);
    const known = Object.keys(node.properties ?? {});
    const meant = nearest(name, known);
    const hint = meant === undefined ? '' : ` (did you mean ${meant}?)`;
    return { path: [...path, name], reason: `is not a known key${hint}`, allowed: known.join(', ') };
  }
  if (error.keyword === 'propertyNames' || error.propertyName !== undefined) {
    const name = String(error.propertyName ?? error.params.propertyName);
    return { path: [...path, name], reason: 'is no header name', allowed: 'letters, digits, _ and -' };
  }
  if (error.keyword === 'required') {
    const name = String(error.params.missingProperty);
    const missing = schemaAt([...path, name]) ?? {};
    return { path: [...path, name], reason: 'is missing', allowed: allowedValues(missing) };
  }
  if (error.keyword === 'minProperties') return { path, reason: 'is empty', allowed: allowedValues(node) };
  if (error.keyword === 'maxLength') {
    return { path, reason: `has ${String(error.data).length} characters`, allowed: allowedValues(node) };
  }
  return { path, reason: `is ${shown(error.data)}`, allowed: allowedValues(node) };
}

/** Values that are each allowed, but not together. */
function contradictions({ pager, server, hosts }: Policy): Problem[] {
  const problems: Problem[] = [];
  if (pager.stagingMiB >= pager.storeMiB) {
    const reason = `is ${pager.stagingMiB}, but pager.storeMiB is ${pager.storeMiB}`;
    problems.push({ path: ['pager', 'stagingMiB'], reason, allowed: 'less than pager.storeMiB' });
  }
  if (!/^0?600$/.test(server.socketMode) && server.group === null) {
    const reason = `is ${shown(server.socketMode)}, but server.group is not set`;
    problems.push({ path: ['server', 'socketMode'], reason, allowed: '"0600", or set server.group' });
  }
  if (hosts.cgroup.enabled && hosts.cgroup.include.length === 0) {
    const reason = 'is true, but hosts.cgroup.include names no cgroups';
    problems.push({ path: ['hosts', 'cgroup', 'enabled'], reason, allowed: 'false, or set the other too' });
  }
  return problems;
}

/** A copy that may be shown to people: header values, which may be credentials, are masked. */
export function redacted(policy: Policy): Policy {
  const headers = Object.fromEntries(Object.keys(policy.otel.headers).map((name) => [name, '***']));
  return { ...policy, otel: { ...policy.otel, headers } };
}
