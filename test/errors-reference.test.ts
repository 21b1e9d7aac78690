import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { AgentZipError, ERRORS, explain, type ErrorCode } from '../src/errors.js';
import { packageRoot } from '../src/paths.js';
import { fromErrorBody, errorBody } from '../src/plugin/http-errors.js';

describe('docs/errors.md', () => {
  it('has every code of the table, with its cause and remedy, and no others', () => {
    const page = readFileSync(join(packageRoot, 'docs/errors.md'), 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `AZ_'));
    const found = rows.map((row) => {
      const cells = row.slice(1, row.lastIndexOf('|')).split(/(?<!\\)\|/);
      return cells.map((cell) => cell.trim().replaceAll('\\|', '|'));
    });
    const escaped = (text: string) => text.replaceAll('<', '\\<');
    const expected = Object.entries(ERRORS).map(([code, [cause, remedy]]) => [
      `\`${code}\``,
      escaped(cause),
      escaped(remedy),
    ]);
    expect(found).toEqual(expected);
  });
});

describe('an error', () => {
  const codes = Object.keys(ERRORS) as ErrorCode[];

  it.each(codes)('%s fills all of its texts from its details', (code) => {
    const names = ERRORS[code].flatMap((text) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
    const details = Object.fromEntries(names.map((name) => [name, `<${name}>`]));
    const error = new AgentZipError(code, details);
    expect(error.message).not.toMatch(/[{}]/);
    expect(error.remedy).not.toMatch(/[{}]/);
    expect(explain(error)).toContain(code);
    const back = fromErrorBody(JSON.parse(JSON.stringify(errorBody(error))), 400);
    expect([back.code, back.message, back.remedy]).toEqual([code, error.message, error.remedy]);
  });

  it('of a code that this version does not know stays readable', () => {
    const error = fromErrorBody({ error: { code: 'AZ_FROM_THE_FUTURE', message: 'time is up' } }, 500);
    expect(error.code).toBe('AZ_INTERNAL');
    expect(error.message).toContain('time is up');
    expect(fromErrorBody(null, 502).message).toContain('502');
  });
});
