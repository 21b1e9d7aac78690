import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { packageRoot, version } from '../src/paths.js';
import { PROTOCOL } from '../src/pager/protocol.js';
import { FORMAT_VERSION } from '../src/store/layout.js';
import { Family } from './support/family.js';
import { Service, swappedBytes } from './support/service.js';

const PAGES = 2048;
const LIMIT = { timeout: 120_000 };

let folder: string;
let service: Service;
let family: Family;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'agentzip-builds-'));
  service = await Service.start();
  family = await Family.start();
});
afterEach(async () => {
  await family?.stop();
  await service?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A copy of this build under another version, with changes; returns its command. */
function build(other: string, changes: Record<string, [from: string, to: string]> = {}): string {
  const root = join(folder, other);
  mkdirSync(root);
  for (const part of ['dist', 'bpf', 'package.json', 'plugin-manifest.json', 'src', 'docs/openapi.json'])
    cpSync(join(packageRoot, part), join(root, part), { recursive: true });
  symlinkSync(join(packageRoot, 'node_modules'), join(root, 'node_modules'));
  const edits = { 'package.json': [`"version": "${version}"`, `"version": "${other}"`] as const, ...changes };
  for (const [file, [from, to]] of Object.entries(edits)) {
    const text = readFileSync(join(root, file), 'utf8');
    expect(text).toContain(from);
    writeFileSync(join(root, file), text.replace(from, to));
  }
  return join(root, 'dist/cli/main.js');
}

const log = (): string => readFileSync(`${service.runtimeDir}/pager.log`, 'utf8');
const register = (pid: number): Promise<unknown> =>
  service.client.putSandbox('box', { tenant: 'acme', pids: [pid] });

/** A sandbox that is out, and a service that has crashed. */
async function crashed(): Promise<number> {
  const pid = await family.fork('box');
  expect(await family.ask('box', `mix box ${PAGES}`)).toBe('ok');
  await register(pid);
  await service.event('llm_request_sent', 'box');
  await service.out('box');
  expect(swappedBytes(pid)).toBeGreaterThan(PAGES * 4096);
  expect(await service.end('SIGKILL')).toBe('SIGKILL');
  return pid;
}

test(
  'a new version takes the device over from a pager of the old one, and no page is lost',
  LIMIT,
  async () => {
    const pid = await crashed();
    const { pagerPid, device } = service;
    service.command = build('99.0.0');
    await service.start();
    const { client } = service;
    const { pager, version: running } = await client.status();
    expect(running).toBe('99.0.0');
    expect(service.pagerPid).not.toBe(pagerPid);
    expect([pager.device, pager.takeovers]).toEqual([device, 1]);
    expect(log()).toContain(`version ${version} gives way to version 99.0.0, pid ${service.pagerPid}\n`);
    // And it has a standby of its own.
    await expect.poll(async () => (await client.status()).pager.standbyPid).not.toBeNull();

    expect(swappedBytes(pid)).toBeGreaterThan(PAGES * 4096);
    await register(pid);
    expect(await family.ask('box', 'verify')).toBe('ok');
    await service.event('llm_request_sent', 'box');
    await service.out('box');
    expect((await service.drain()).code).toBe(0);
    expect(await family.ask('box', 'verify')).toBe('ok');
  },
);

test('what can not take over is refused or done without, and the old pager goes on', LIMIT, async () => {
  const pid = await crashed();
  const { pagerPid } = service;
  const format = build('99.1.0', {
    'dist/store/layout.js': [`FORMAT_VERSION = ${FORMAT_VERSION}`, 'FORMAT_VERSION = 1000'],
  });
  const protocol = build('99.2.0', {
    'dist/pager/protocol.js': [`PROTOCOL = ${PROTOCOL}`, 'PROTOCOL = 1001'],
  });
  for (const [command, other, what] of [
    [format, '99.1.0', `${PROTOCOL}/1000`],
    [protocol, '99.2.0', `1001/${FORMAT_VERSION}`],
  ]) {
    service.command = command;
    const failed = await service.start().then(
      () => '',
      (error: Error) => error.message,
    );
    expect(failed).toContain(
      `AZ_PAGER_VERSION: the pager that runs (pid ${pagerPid}) is of version ${version},`,
    );
    expect(failed).toContain(`this is version ${other}, ${what}`);
    expect(failed).toContain(`start version ${version} again`);
  }

  // One whose pager does not start, whatever the reason: its service goes on with the old pager.
  service.command = build('99.3.0');
  writeFileSync(join(dirname(service.command), '../pager/succession/standby.js'), 'process.exit(3);');
  await service.start();
  expect(service.pagerPid).toBe(pagerPid);
  expect(service.output).toContain(`the pager is still of version ${version}: AZ_PAGER_REFUSED`);
  await expect.poll(async () => (await service.client.status()).pager.standbyPid).not.toBeNull();
  await register(pid);
  expect(await family.ask('box', 'verify')).toBe('ok');
});
