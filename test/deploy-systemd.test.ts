import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { CAPABILITIES } from '../src/plugin/doctor/privileges.js';
import { readManifest } from '../src/plugin/manifest.js';
import { ServiceManager } from '../src/plugin/service-manager.js';
import { Family } from './support/family.js';
import { Service } from './support/service.js';

const UNIT = `${packageRoot}/deploy/systemd/agentzip.service`;
const TIMEOUT_MS = 30_000;
/** What `systemd-analyze security` gives; lower is better. docs/installing.md names it. */
const EXPOSURE_MAX = 5.6;

/** Values by key; a key may come more than once. */
const settings = new Map<string, string[]>();
for (const line of readFileSync(UNIT, 'utf8').split('\n')) {
  const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
  if (key !== undefined) settings.set(key, [...(settings.get(key) ?? []), value]);
}
const one = (key: string): string => (settings.get(key) ?? []).join(' ');

function toolMissing(): boolean {
  if (spawnSync('systemd-analyze', ['--version']).status === 0) return false;
  const message = 'the unit is not verified: systemd-analyze is missing (apt-get install systemd)';
  if (process.env.CI) throw new Error(message);
  process.stderr.write(`SKIPPED: ${message}\n`);
  return true;
}

describe('the systemd unit', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'agentzip-unit-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it.skipIf(toolMissing())('is understood by systemd, every line of it', () => {
    const verify = (text: string): string => {
      // The command is looked up; here it is not installed.
      const file = join(folder, 'agentzip.service');
      writeFileSync(file, text.replaceAll('=agentzip ', `=${process.execPath} `));
      const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', file], {
        encoding: 'utf8',
        timeout: TIMEOUT_MS,
      });
      return `${status} ${stdout}${stderr}`;
    };
    const text = readFileSync(UNIT, 'utf8');
    expect(verify(text)).toBe('0 ');
    expect(verify(text.replace('KillMode=process', 'KillMode=processes'))).toMatch(/kill mode/i);
  });

  it.skipIf(toolMissing())('is as tight as the documentation says', () => {
    const words = ['security', '--offline=yes', `--threshold=${EXPOSURE_MAX * 10}`, UNIT];
    const { status, stdout } = spawnSync('systemd-analyze', words, { encoding: 'utf8', timeout: TIMEOUT_MS });
    const level = Number(/exposure level for agentzip\.service: ([\d.]+)/.exec(stdout)?.[1]);
    expect(level).toBeLessThanOrEqual(EXPOSURE_MAX);
    expect(status).toBe(0);
    const page = readFileSync(`${packageRoot}/docs/installing.md`, 'utf8');
    expect(page).toContain(`exposure level ${EXPOSURE_MAX}`);
  });

  it('never ends or kills the pager, and leaves a drain its time', () => {
    expect(one('KillMode')).toBe('process');
    expect(one('ExecStop')).toBe('agentzip drain');
    expect(one('Restart')).toBe('on-failure');
    expect(one('TimeoutStopSec')).toBe('30min');
    // Each of them would take away what the pager needs, or is in.
    for (const key of [
      'RuntimeDirectory',
      'PrivateTmp',
      'ProtectSystem',
      'MemorySwapMax',
      'MemoryMax',
      'SendSIGKILL',
    ])
      expect([key, settings.has(key)]).toEqual([key, false]);
    for (const host of ['docker', 'containerd', 'nomad', 'kubelet'])
      expect(one('Before').split(' ')).toContain(`${host}.service`);
  });

  it('permits every capability and device that AgentZip uses', () => {
    const bounds = one('CapabilityBoundingSet').split(' ');
    expect(CAPABILITIES.map(({ name }) => name).filter((name) => !bounds.includes(name))).toEqual([]);
    const devices = (settings.get('DeviceAllow') ?? []).map((value) => value.split(' ')[0]);
    const needed = readManifest()
      .detect.needs.map(({ path }) => path)
      .filter((path) => path.startsWith('/dev/'));
    expect(needed.length).toBeGreaterThan(1);
    expect(needed.filter((path) => !devices.includes(path))).toEqual([]);
  });
});

test('a start, a crash and a stop with the rights of the unit alone', { timeout: 120_000 }, async () => {
  const bounds = one('CapabilityBoundingSet')
    .split(' ')
    .map((name) => `+${name.slice('CAP_'.length).toLowerCase()}`);
  const as = ['setpriv', '--no-new-privs', `--bounding-set=-all,${bounds.join(',')}`];
  const service = await Service.start({}, { as });
  const family = await Family.start();
  try {
    const pid = await family.fork('box');
    expect(await family.ask('box', 'mix box 2048')).toBe('ok');
    const register = (): Promise<unknown> =>
      service.client.putSandbox('box', { tenant: 'acme', pids: [pid] });
    await register();
    await service.event('llm_request_sent', 'box');
    expect((await service.out('box')).swappedBytes).toBeGreaterThan(2048 * 4096);
    expect((await service.client.status()).probes.attached).not.toEqual([]);

    const { pagerPid } = service;
    expect(await service.end('SIGKILL')).toBe('SIGKILL');
    await service.start();
    expect(service.pagerPid).toBe(pagerPid);
    await register();
    expect(await family.ask('box', 'verify')).toBe('ok');
    // ExecStop
    expect((await service.drain()).code).toBe(0);
    expect(await service.ended()).toBe(0);
  } finally {
    await family.stop();
    await service.stop();
  }
});

describe('the service manager', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'agentzip-notify-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Node has no datagram sockets of this kind. */
  const LISTENER = `
import socket, sys
name = sys.argv[1]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(name.replace('@', chr(0)))
print('bound', flush=True)
while True: print(repr(listener.recv(4096).decode()), flush=True)
`;

  it.each([
    ['a path', () => join(folder, 'notify')],
    ['an abstract name', () => `@agentzip-test-${process.pid}`],
  ])('is told by %s', async (_, name) => {
    const path = name();
    const listener = spawn('/usr/bin/python3', ['-c', LISTENER, path]);
    try {
      const lines = createInterface({ input: listener.stdout })[Symbol.asyncIterator]();
      const next = async (): Promise<string> => String((await lines.next()).value);
      expect(await next()).toBe('bound');
      const manager = new ServiceManager(expect.unreachable, { NOTIFY_SOCKET: path });
      manager.ready('/dev/loop7');
      manager.status('not drained:\nno room');
      expect(await next()).toBe("'READY=1\\nSTATUS=serves swap on /dev/loop7'");
      expect(await next()).toBe("'STATUS=not drained:; no room'");
    } finally {
      listener.kill('SIGKILL');
    }
  });

  it('is left alone when there is none, and a dead one is a warning', () => {
    const warnings: string[] = [];
    const warn = (text: string): void => void warnings.push(text);
    new ServiceManager(warn, {}).ready('/dev/loop7');
    expect(warnings).toEqual([]);
    new ServiceManager(warn, { NOTIFY_SOCKET: join(folder, 'none') }).ready('/dev/loop7');
    expect(warnings).toEqual([expect.stringMatching(/could not be told \(sendto.*ENOENT/)]);
  });
});
