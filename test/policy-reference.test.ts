import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { parsePolicy } from '../src/policy/load.js';
import { policyExample, policyReference } from '../src/policy/reference.js';
import { agentzip } from './support/command.js';

const PAGE = join(packageRoot, 'docs/policy.md');

it('docs/policy.md is what the schema says; npm run docs writes it anew', async () => {
  const options = await resolveConfig(PAGE);
  await expect(await format(policyReference(), { ...options, parser: 'markdown' })).toMatchFileSnapshot(PAGE);
});

it('its links lead to pages and headings that exist', () => {
  const page = readFileSync(PAGE, 'utf8');
  for (const [, file, heading] of page.matchAll(/\]\(([\w-]*\.md)?(?:#([\w-]+))?\)/g)) {
    const text = file === undefined ? page : readFileSync(join(packageRoot, 'docs', file), 'utf8');
    const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
      title
        .toLowerCase()
        .replace(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    );
    if (heading !== undefined) expect(headings).toContain(heading);
  }
});

it('the example file says what the defaults say, and every key has a comment', () => {
  const text = policyExample();
  expect(parsePolicy(text)).toEqual(DEFAULT_POLICY);
  const lines = text.split('\n');
  lines.forEach((line, i) => {
    expect(line.length, line).toBeLessThan(200);
    if (/^ *\w+:/.test(line)) expect(lines[i - 1], line).toMatch(/^ *#|:$/);
  });
  // What stands there as an example is one.
  const shown = lines.slice(lines.indexOf('#') + 1).map((line) => line.replace(/^# ?/, ''));
  expect(parsePolicy(shown.join('\n')).overrides).toHaveLength(2);
});

it('agentzip policy init writes it, once, or prints it', async () => {
  const folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  const file = `${folder}/agentzip.yaml`;
  try {
    expect(await agentzip(['policy', 'init', file])).toEqual({
      ...{ code: 0, stdout: `agentzip: ${file} is written\n`, stderr: '' },
    });
    expect(readFileSync(file, 'utf8')).toBe(policyExample());
    expect((await agentzip(['policy', 'check', file])).code).toBe(0);
    const again = await agentzip(['policy', 'init', file]);
    expect(again.code).toBe(1);
    expect(again.stderr).toMatch(/AZ_POLICY_WRITE: .*EEXIST/);
    expect((await agentzip(['policy', 'init'])).stdout).toBe(policyExample());
  } finally {
    rmSync(folder, { recursive: true });
  }
});
