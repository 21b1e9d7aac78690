import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { loadPolicy, parsePolicy, redacted } from '../src/policy/load.js';
import { allowedValues, schemaAt, schemaErrors } from '../src/policy/schema.js';

/** Every key as a path, with its default. */
const leaves = Object.entries(DEFAULT_POLICY).flatMap(([section, value]): [string[], unknown][] =>
  typeof value === 'object'
    ? Object.entries(value).map(([key, inner]) => [[section, key], inner])
    : [[[section], value]],
);

describe('defaults and schema', () => {
  it('agree: the defaults are a valid policy', () => {
    expect(schemaErrors(DEFAULT_POLICY)).toEqual([]);
  });

  it('have the same keys', () => {
    const names = Object.keys(schemaAt([])?.properties ?? {});
    expect(names.sort()).toEqual(Object.keys(DEFAULT_POLICY).sort());
    for (const [section, value] of Object.entries(DEFAULT_POLICY)) {
      if (typeof value !== 'object') continue;
      const keys = Object.keys(schemaAt([section])?.properties ?? {});
      expect(keys.sort(), section).toEqual(Object.keys(value).sort());
    }
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
    const expected = leaves.map(([path, value]) => {
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
