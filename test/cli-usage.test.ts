import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { version } from '../src/paths.js';
import { agentzip } from './support/command.js';
import { startControlServer } from './support/control-server.js';

const folder = mkdtempSync(join(tmpdir(), 'agentzip-cli-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('exit code 0', () => {
  it.each([
    [['--help'], /Usage: agentzip/],
    [['--version'], new RegExp(`^${version.replaceAll('.', '\\.')}$`, 'm')],
    ...['run', 'demo', 'status', 'doctor', 'drain', 'top', 'template'].map((name): [string[], RegExp] => [
      [name, '--help'],
      new RegExp(`Usage: agentzip ${name}`),
    ]),
    [['policy', 'check', '--help'], /Usage: agentzip policy check/],
  ])('%j', async (words, output) => {
    const { code, stdout, stderr } = await agentzip(words);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(output);
  });
});

describe('exit code 2 and AZ_USAGE for wrong usage', () => {
  it.each([
    [['frobnicate'], "unknown command 'frobnicate'", 'see agentzip --help'],
    [['run', '--colour'], "unknown option '--colour'", 'see agentzip run --help'],
    [['run', 'now'], 'too many arguments', 'see agentzip run --help'],
    [['run', '--hosts', 'vax'], '--hosts: vax is no adapter; there are ', 'see agentzip run --help'],
    [['run', '--hosts', 'cgroup'], 'needs hosts.cgroup.include', 'see agentzip run --help'],
    [['template', 'capture', '1'], "required option '--id <id>'", 'see agentzip template capture --help'],
    [['template', 'capture', 'x', '--id', 'a'], 'must be a whole number', 'see agentzip template capture'],
    [['top', '--interval', '0'], 'must be a number from 0.1', 'see agentzip top --help'],
    [['policy', 'check'], "missing required argument 'file'", 'see agentzip policy check --help'],
    [['status', '--runtime-dir', `/${'d'.repeat(200)}`], 'bytes too long', 'see agentzip'],
  ])('%j', async (words, message, remedy) => {
    const { code, stdout, stderr } = await agentzip(words);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^agentzip: AZ_USAGE: .+\nremedy: .+\n$/);
    expect(stderr).toContain(message);
    expect(stderr).toContain(`remedy: ${remedy}`);
  });

  it('shows the help when no command is given', async () => {
    const { code, stderr } = await agentzip([]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/Usage: agentzip/);
  });
});

describe('policy check', () => {
  it('accepts a good file, and prints what it means without credentials', async () => {
    const path = file('good.yaml', 'pager: {workers: 3}\notel: {headers: {authorization: secret}}\n');
    expect(await agentzip(['policy', 'check', path])).toEqual({
      ...{ code: 0, stdout: `agentzip: ${path} is valid\n`, stderr: '' },
    });
    const { stdout } = await agentzip(['policy', 'check', path, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({
      pager: { workers: 3 },
      otel: { headers: { authorization: '***' } },
    });
  });

  it.each([
    ['bad.yaml', 'pager:\n  worker: 3\n', /AZ_POLICY_INVALID: .*bad\.yaml:2: pager\.worker .*workers/],
    ['torn.yaml', 'pager: [\n', /AZ_POLICY_SYNTAX: .*torn\.yaml:\d+:\d+: /],
  ])('refuses %s with exit code 1', async (name, text, message) => {
    const { code, stdout, stderr } = await agentzip(['policy', 'check', file(name, text)]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/\nremedy: .+\n$/);
  });

  it('refuses a file that is not there', async () => {
    const { code, stderr } = await agentzip(['policy', 'check', join(folder, 'none.yaml')]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/AZ_POLICY_READ.*ENOENT/);
  });
});

describe('status', () => {
  it('prints a table, or JSON', async () => {
    const server = await startControlServer();
    try {
      server.controller.sandboxes.set('box-1', { pids: [42], template: 'py' });
      const table = await agentzip(['status', '--runtime-dir', server.folder]);
      expect(table.code).toBe(0);
      expect(table.stdout).toMatch(/^SANDBOX +TEMPLATE +HOST +MODE +PHASE +OWNED MiB/m);
      expect(table.stdout).toMatch(/^box-1 +py +api +reclaim +idle +4\.0 +40\.0 +4\.0 +10\.0x +2 +1 +3$/m);
      expect(table.stdout).toMatch(/^host cgroup: 0 sandboxes$/m);
      expect(table.stdout).toMatch(/^warning: no exec events$/m);
      const json = await agentzip(['status', '--json', '--runtime-dir', server.folder]);
      expect(JSON.parse(json.stdout)).toMatchObject({ sandboxes: [{ id: 'box-1', ratio: 10 }] });
    } finally {
      await server.stop();
    }
  });

  it('says so when nobody runs', async () => {
    const { code, stderr } = await agentzip(['status', '--runtime-dir', folder]);
    expect(code).toBe(1);
    expect(stderr).toBe(
      `agentzip: AZ_NOT_RUNNING: no AgentZip answers at ${folder}/agentzip.sock\nremedy: start it: agentzip run\n`,
    );
  });
});
