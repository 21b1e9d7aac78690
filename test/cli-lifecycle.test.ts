import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { version } from '../src/paths.js';
import { AgentZipClient } from '../src/plugin/client.js';
import { InstanceLock } from '../src/plugin/lock.js';
import { AdoptedPager } from './support/adopted-pager.js';
import { agentzip, COMMAND } from './support/command.js';

/** The whole command over a pager that it takes over: no swap is turned on here. */
let folder: string;
let pager: AdoptedPager;
let client: AgentZipClient;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'agentzip-life-'));
  mkdirSync(join(folder, 'state'));
  pager = await AdoptedPager.start(folder);
  client = new AgentZipClient(join(folder, 'agentzip.sock'));
});

afterEach(async () => {
  client.close();
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  pager.stop();
  rmSync(folder, { recursive: true, force: true });
});

const WORDS = () => ['run', '--runtime-dir', folder, '--state-dir', join(folder, 'state')];

async function start(...more: string[]) {
  const child = spawn(process.execPath, [COMMAND, ...WORDS(), ...more], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (output.stderr += text));
  const exited = once(child, 'exit').then(([code, signal]) => signal ?? code);
  await expect
    .poll(() => output.stdout, { timeout: 20_000, message: 'ready' })
    .toBe(`agentzip: ready\nagentzip: socket ${folder}/agentzip.sock\n`);
  return { child, output, exited };
}

const gone = (): void => {
  expect(existsSync(join(folder, 'agentzip.sock'))).toBe(false);
  expect(InstanceLock.isHeld(folder)).toBe(false);
};

describe('agentzip run', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)('drains and ends with 0 on %s', async (signal) => {
    const { child, exited } = await start();
    expect(await client.health()).toEqual({ status: 'ok', version, pid: child.pid });
    expect(statSync(join(folder, 'agentzip.sock')).mode & 0o777).toBe(0o600);
    child.kill(signal);
    expect(await exited).toBe(0);
    expect(pager.asked.filter((op) => op === 'drain')).toEqual(['drain']);
    gone();
  });

  it('reads its policy anew on SIGHUP and when the file is replaced, and says what came of it', async () => {
    const file = join(folder, 'agentzip.yaml');
    const replace = (text: string): void => {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    };
    replace('mode: observe\n');
    const { child, output } = await start('--policy', file);
    const says = (text: RegExp) => expect.poll(() => output.stderr, { timeout: 10_000 }).toMatch(text);
    const policy = async () => (await client.status()).policy;
    replace('mode: proactive\npager: {workers: 3}\nserver: {maxBodyKiB: 1}\n');
    await says(/policy: mode, server\.maxBodyKiB changed\n.*AZ_POLICY_KEPT: pager\.workers/);
    expect(await policy()).toMatchObject({ file, kept: ['pager.workers'], refused: null, changes: 1 });
    expect((await client.status()).enabled).toBe(true);
    const large = client.putSandbox('box', { cgroup: 'x'.repeat(2000) });
    await expect(large).rejects.toMatchObject({ code: 'AZ_BODY_TOO_LARGE' });

    replace('mode: fast\n');
    await says(/AZ_POLICY_INVALID: .*:1: mode is "fast"\n.*\n.*the policy from before holds/);
    const { alerts, enabled } = await client.status();
    expect([alerts.map(({ code }) => code), enabled]).toEqual([
      ['AZ_POLICY_INVALID', 'AZ_POLICY_KEPT'],
      true,
    ]);

    // SIGHUP does not wait for the watch, and does not end the service.
    writeFileSync(file, 'mode: off\nlog: {level: warn}\n');
    child.kill('SIGHUP');
    await expect.poll(async () => (await policy()).refused).toBeNull();
    await expect.poll(async () => (await client.status()).enabled).toBe(false);
    expect(output.stderr).not.toMatch(/log\.level/);
    expect(child.exitCode).toBeNull();
  });

  it('ends with 0 when a host drains it, and another may start right after', async () => {
    const { exited } = await start();
    expect((await agentzip(['status', '--json', '--runtime-dir', folder])).code).toBe(0);
    expect(await agentzip(['drain', '--runtime-dir', folder])).toMatchObject({ code: 0, stderr: '' });
    gone();
    expect(await exited).toBe(0);
    pager = await AdoptedPager.start(folder);
    const next = await start();
    next.child.kill('SIGTERM');
    expect(await next.exited).toBe(0);
  });

  it('keeps running, and says so, when a drain is refused', async () => {
    const { child, output, exited } = await start();
    pager.answers.drain = { error: { code: 'AZ_DRAIN_MEMORY', details: { neededMiB: 9, availableMiB: 1 } } };
    child.kill('SIGTERM');
    await expect
      .poll(() => output.stderr)
      .toMatch(/AZ_DRAIN_MEMORY: .*9 MiB.*\nremedy: .*\nagentzip: not drained/);
    expect((await client.health()).pid).toBe(child.pid);
    await expect(client.drain()).rejects.toMatchObject({ code: 'AZ_DRAIN_MEMORY' });
    delete pager.answers.drain;
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
  });

  it('refuses to run twice', async () => {
    const { child } = await start();
    const { code, stderr } = await agentzip(WORDS());
    expect(code).toBe(1);
    expect(stderr).toContain(`AZ_ALREADY_RUNNING: another AgentZip runs here (pid ${child.pid},`);
    expect((await client.health()).pid).toBe(child.pid);
  });

  it('starts again after SIGKILL, over the pager that lives on', async () => {
    const { child, exited } = await start();
    child.kill('SIGKILL');
    expect(await exited).toBe('SIGKILL');
    await expect(client.status()).rejects.toMatchObject({ code: 'AZ_NOT_RUNNING' });
    const next = await start();
    expect((await client.status()).pid).toBe(next.child.pid);
    expect(pager.asked).not.toContain('drain');
  });

  it('ends with 1 and AZ_PAGER_LOST when its pager is gone', async () => {
    const { output, exited } = await start();
    pager.stop();
    expect(await exited).toBe(1);
    expect(output.stderr).toMatch(/AZ_PAGER_LOST: the pager \(pid 2\) is gone: it ended\nremedy: /);
    gone();
  });
});
