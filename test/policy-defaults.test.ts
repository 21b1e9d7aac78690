import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { loadPolicy, parsePolicy, redacted } from '../src/policy/load.js';
import { allowedValues, schemaAt, schemaErrors } from '../src/policy/schema.js';

const isSection = (value: unknown, path: string[]): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && schemaAt(path)?.properties !== undefined;

/** Every key as a path, with its default. */
function leavesOf(value: unknown, path: string[] = []): [string[], unknown][] {
  if (!isSection(value, path)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, [...path, key]));
}

/** Every section as a path, with its keys. */
function sectionsOf(value: unknown, path: string[] = []): [string[], string[]][] {
  if (!isSection(value, path)) return [];
  const inner = Object.entries(value).flatMap(([key, below]) => sectionsOf(below, [...path, key]));
  return [[path, Object.keys(value)], ...inner];
}

const leaves = leavesOf(DEFAULT_POLICY);

describe('defaults and schema', () => {
  it('agree: the defaults are a valid policy', () => {
    expect(schemaErrors(DEFAULT_POLICY)).toEqual([]);
  });

  it.each(sectionsOf(DEFAULT_POLICY))('have the same keys in %j', (path, keys) => {
    expect(Object.keys(schemaAt(path)?.properties ?? {}).sort()).toEqual(keys.sort());
  });

  it.each(leaves)('%j is described and bounded', (path) => {
    const node = schemaAt(path);
    expect(node?.description).toMatch(/\.$/);
    const types = [node?.type ?? []].flat();
    if (types.includes('integer') || types.includes('number')) {
      expect(node?.enum ?? [node?.minimum, node?.maximum]).not.toContain(undefined);
    }
    if (types.includes('string')) expect(node?.enum ?? node?.format).toBeDefined();
    if (types.includes('object')) expect(node?.maxProperties).toBeGreaterThan(0);
  });

  it('and docs/policy.md say the same of every key', () => {
    const page = readFileSync(`${packageRoot}/docs/policy.md`, 'utf8');
    const [keys] = page.split('\n## overrides\n');
    const rows = keys.split('\n').filter((line) => line.startsWith('| `'));
    // Overrides have a section of their own.
    const listed = leaves.filter(([path]) => path[0] !== 'overrides');
    const expected = listed.map(([path, value]) => {
      const node = schemaAt(path) ?? {};
      const shown = typeof value === 'string' ? value : JSON.stringify(value);
      return [`\`${path.join('.')}\``, `\`${shown}\``, allowedValues(node), node.description];
    });
    const cells = (row: string) =>
      row
        .slice(2, -1)
        .trim()
        .split(/ +\| +/);
    expect(rows.map((row) => cells(row.trim()))).toEqual(expected);
  });
});

describe('loading', () => {
  it('without a file gives the defaults, as a copy of one’s own', () => {
    const policy = loadPolicy();
    expect(policy).toEqual(DEFAULT_POLICY);
    policy.pager.workers = 9;
    expect(DEFAULT_POLICY.pager.workers).toBe(2);
  });

  it('lays a file over the defaults, key by key', () => {
    const policy = parsePolicy('pager:\n  workers: 4\notel:\n  headers: {authorization: secret}\n');
    expect(policy.pager).toEqual({ ...DEFAULT_POLICY.pager, workers: 4 });
    expect(policy.otel.headers).toEqual({ authorization: 'secret' });
    expect(policy.encoding).toEqual(DEFAULT_POLICY.encoding);
  });

  it('does so in sections of sections, and takes a list as a whole', () => {
    const { hosts } = parsePolicy('hosts: {capture: {templates: 3}, cgroup: {include: [a/*]}}\n');
    expect(hosts.capture).toEqual({ ...DEFAULT_POLICY.hosts.capture, templates: 3 });
    expect(hosts.cgroup).toEqual({ ...DEFAULT_POLICY.hosts.cgroup, include: ['a/*'] });
    hosts.cgroup.exclude.push('b');
    expect(DEFAULT_POLICY.hosts.cgroup.exclude).toEqual([]);
  });

  it('takes JSON, an empty file, and comments alone', () => {
    expect(parsePolicy('{"mode": "off"}').mode).toBe('off');
    expect(parsePolicy('')).toEqual(DEFAULT_POLICY);
    expect(parsePolicy('# nothing yet\n')).toEqual(DEFAULT_POLICY);
  });

  it('reads off as the mode, not as a boolean of YAML 1.1', () => {
    expect(parsePolicy('mode: off\n').mode).toBe('off');
  });

  it('masks credentials before a policy is shown', () => {
    const policy = parsePolicy('otel: {headers: {authorization: secret}}');
    expect(JSON.stringify(redacted(policy))).not.toContain('secret');
    expect(policy.otel.headers.authorization).toBe('secret');
  });
});
