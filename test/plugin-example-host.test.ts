import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';

const EXAMPLE = join(packageRoot, 'docs/examples/host.mjs');

test('the example host has less than 60 lines', () => {
  expect(readFileSync(EXAMPLE, 'utf8').split('\n').length).toBeLessThan(61);
});

test('it runs as it stands: memory goes out in the wait, the tool gets its bytes, nothing stays', async () => {
  const folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  try {
    // `agentzip` resolves to this package by its own name.
    const child = spawn(process.execPath, [EXAMPLE, folder], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    const [code] = await once(child, 'close');
    expect(code, output).toBe(0);
    const [, before, during] = /owned MiB (\d+) then (\d+)/.exec(output) as RegExpExecArray;
    expect(Number(before)).toBeGreaterThanOrEqual(32);
    expect(Number(during)).toBeLessThan(Number(before) / 2);
    expect(output).toContain('mode proactive');
    expect(output).toContain('window of box-1 first_token');
    expect(output).toContain('span agentzip.window first_token');
    expect(output).toContain(`tool says ${8192 * 4096}`);
    expect(readFileSync('/proc/mounts', 'utf8')).not.toContain(folder);
    expect(existsSync(`${folder}/agentzip.sock`)).toBe(false);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
