import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { ask, Conformance, describeApi } from './support/api-description.js';
import { startControlServer, type TestServer } from './support/control-server.js';

const FOLDER = join(packageRoot, 'docs/examples');

let server: TestServer;
beforeEach(async () => (server = await startControlServer()));
afterEach(() => server.stop());

async function run(...words: string[]) {
  const env = { ...process.env, AGENTZIP_SOCKET: server.socketPath };
  const child = spawn(words[0], words.slice(1), { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const outcome = { code: null as number | null, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (outcome.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (outcome.stderr += text));
  [outcome.code] = await once(child, 'close');
  return outcome;
}

/** What each example tells of the turn. */
function toldAll(): void {
  expect(server.controller.calls).toEqual(['putSandbox box-7', 'deleteSandbox box-7']);
  expect(server.controller.events).toEqual([
    ['box-7', { type: 'llm_request_sent', model: 'large' }],
    ['box-7', { type: 'llm_first_token' }],
    ['box-7', { type: 'llm_response_end', tool: 'bash' }],
  ]);
  expect(server.internalErrors).toEqual([]);
}

/** The clients that this machine can run. Go's compiler is 500 MB, so tests do not install it. */
const CLIENTS: [name: string, ...words: string[]][] = [
  ['curl', 'sh', join(FOLDER, 'turn.sh')],
  ['Python', '/usr/bin/python3', join(FOLDER, 'turn.py')],
];
if (spawnSync('go', ['version']).status === 0) CLIENTS.push(['Go', 'go', 'run', join(FOLDER, 'turn.go')]);

describe.each(CLIENTS)('the example in %s', (_, ...words) => {
  it('tells of a turn', async () => {
    const { code, stdout, stderr } = await run(...words, 'box-7', '4711');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('"ownedBytes"');
    toldAll();
  });

  it('says what was refused, and ends', async () => {
    const { code, stdout, stderr } = await run(...words, 'box-7', '0');
    expect(code).not.toBe(0);
    expect(stdout + stderr).toMatch(/AZ_BAD_REQUEST.*pids\.0 must be >= 1/s);
    expect(server.controller.events).toEqual([]);
  });
});

describe('the example in Go', () => {
  it('makes requests that are documented and that the server takes', async () => {
    const source = readFileSync(join(FOLDER, 'turn.go'), 'utf8');
    const text = (expression: string) =>
      expression
        .replace(/\bpid\b/, '`4711`')
        .replace(/\bbox\b/, '`/v1/sandboxes/box-7`')
        .split('+')
        .map((part) => part.slice(1, -1))
        .join('');
    const calls = [...source.matchAll(/\bcall\("([A-Z]+)", ([^,]+), (.+?)\)+\n/g)].map(
      ([, method, path, body]) => ({ method, path: text(path), body: text(body) }),
    );
    expect(calls).toHaveLength(6);
    const conformance = new Conformance(describeApi());
    for (const { method, path, body } of calls) {
      const value: unknown = body === '' ? undefined : JSON.parse(body);
      expect(conformance.body(method, path, value)).toBeNull();
      const reply = await ask(server.socketPath, method, path, value);
      expect(reply.status, reply.text).toBeLessThan(300);
      expect(conformance.answer(method, path, reply)).toBeNull();
    }
    toldAll();
  });
});
