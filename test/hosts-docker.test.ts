import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { FoundSandbox, HostListener } from '../src/hosts/adapter.js';
import { DockerAdapter, type DockerOptions } from '../src/hosts/docker.js';
import { cgroupMounts } from '../src/memory/cgroup.js';
import { Bench, until } from './support/controller.js';
import { Docker } from './support/docker.js';

const SLEEP = ['/bin/sleep', '1000'];
const MOUNT = cgroupMounts().find(({ memory }) => memory)!.path;

let docker: Docker;
beforeAll(async () => {
  docker = await Docker.start();
});
afterAll(() => docker?.stop());
afterEach(async () => {
  const all = (await docker.ask('ps', '-aq')).split('\n').filter(Boolean);
  if (all.length > 0) await docker.ask('rm', '-f', ...all);
});

const adapter = (options: Partial<DockerOptions> = {}): DockerAdapter =>
  new DockerAdapter({
    ...{ mode: 'reclaim', socket: docker.socket, include: [], exclude: [] },
    ...{ tenantLabel: 'agentzip.tenant', templateLabel: 'agentzip.template' },
    ...options,
  });

const byId = (found: FoundSandbox[]): FoundSandbox[] => found.sort((a, b) => a.id.localeCompare(b.id));

/** What a listener is told, a word each. */
function listen(to: DockerAdapter): { heard: string[]; end: () => void } {
  const heard: string[] = [];
  const listener: HostListener = {
    changed: () => heard.push('changed'),
    tool: (id, type, name) => heard.push([id, type, name].filter(Boolean).join(' ')),
    frozen: (id, on) => heard.push(`${id} ${on ? 'frozen' : 'thawed'}`),
    failed: (error) => heard.push(`failed: ${error.message}`),
  };
  return { heard, end: to.follow(listener) };
}

test('a container has its cgroup, its image for a template, and the tenant of its label', async () => {
  const image = (await docker.ask('images', '-q', '--no-trunc', 'box')).split('\n')[0];
  const id = await docker.run('one', ['--label', 'agentzip.tenant=acme'], SLEEP);
  await docker.run('two', ['--label', 'agentzip.template=py'], SLEEP);
  await docker.ask('create', '--name', 'never', 'box', ...SLEEP);
  const [one, two, ...others] = byId(await adapter().find());
  expect(one).toEqual({
    ...{ id: 'docker:one', cgroup: `${MOUNT}/${docker.parent}/${id}`, template: image, tenant: 'acme' },
    ...{ mode: 'reclaim', why: 'a container of box', hazards: [] },
  });
  expect(two).toMatchObject({ id: 'docker:two', template: 'py', tenant: undefined });
  expect(others).toEqual([]);
  const pid = await docker.ask('inspect', '-f', '{{.State.Pid}}', 'one');
  expect(readFileSync(`${one.cgroup}/cgroup.procs`, 'latin1')).toBe(`${pid}\n`);
});

test('policy chooses by name, image and label', async () => {
  await docker.run('agent-1', [], SLEEP);
  await docker.run('agent-2', ['--label', 'role=worker'], SLEEP);
  await docker.run('db', [], SLEEP);
  const chosen = async (options: Partial<DockerOptions>): Promise<string> =>
    byId(await adapter(options).find())
      .map(({ id }) => id.slice('docker:'.length))
      .join();
  expect(await chosen({})).toBe('agent-1,agent-2,db');
  expect(await chosen({ include: ['name:agent-*'] })).toBe('agent-1,agent-2');
  expect(await chosen({ include: ['label:role=worker', 'name:db'] })).toBe('agent-2,db');
  expect(await chosen({ exclude: ['label:role'] })).toBe('agent-1,db');
  expect(await chosen({ include: ['image:box'], exclude: ['name:*1', 'name:d?'] })).toBe('agent-2');
  expect(await chosen({ include: ['image:other'] })).toBe('');
});

test('mode and tenants are what the policy says', async () => {
  await docker.run('one', ['--label', 'com.docker.compose.project=shop'], SLEEP);
  const options = { mode: 'observe' as const, tenantLabel: 'com.docker.compose.project' };
  const [found] = await adapter(options).find();
  expect(found).toMatchObject({
    mode: 'observe',
    why: expect.stringContaining('hosts.docker.mode'),
    tenant: 'shop',
  });
});

test('calls, starts and ends are told, health checks are not calls', async () => {
  const own = adapter();
  const health = ['--health-cmd', '/bin/true', '--health-interval', '1s'];
  await docker.run('one', health, SLEEP);
  await own.find();
  const { heard, end } = listen(own);
  try {
    await until(() => heard.includes('changed'));
    await until(
      async () => (await docker.ask('inspect', '-f', '{{.State.Health.Status}}', 'one')) === 'healthy',
    );
    expect(heard.filter((text) => text !== 'changed')).toEqual([]);
    await docker.ask('exec', 'one', '/bin/sh', '-c', '/bin/cat /mark; true');
    await docker.ask('exec', 'one', '/bin/cat', '/mark');
    await until(() => heard.filter((text) => text === 'docker:one tool_end').length === 2);
    expect(heard.filter((text) => text !== 'changed')).toEqual([
      ...['docker:one tool_start cat', 'docker:one tool_end'],
      ...['docker:one tool_start cat', 'docker:one tool_end'],
    ]);
    heard.length = 0;
    await docker.ask('pause', 'one');
    await until(() => heard.includes('docker:one frozen'));
    await docker.ask('unpause', 'one');
    await until(() => heard.includes('docker:one thawed'));
    // A call that its container does not survive.
    await docker.ask('exec', '-d', 'one', ...SLEEP);
    await until(() => heard.includes('docker:one tool_start sleep'));
    await docker.ask('kill', 'one');
    await until(() => heard.includes('docker:one tool_end'));
  } finally {
    end();
  }
  heard.length = 0;
  await docker.run('two', [], SLEEP);
  expect(heard).toEqual([]);
});

test('a container that is paused already is told of once it is known', async () => {
  const own = adapter();
  await docker.run('one', [], SLEEP);
  await docker.ask('pause', 'one');
  const { heard, end } = listen(own);
  try {
    await own.find();
    await own.find();
    await until(() => heard.includes('docker:one frozen'));
    expect(heard.filter((text) => text === 'docker:one frozen')).toHaveLength(1);
  } finally {
    end();
  }
});

test('an engine that is not there, or answers with something else, is named', async () => {
  const socket = `${docker.folder}/none.sock`;
  await expect(adapter({ socket }).find()).rejects.toMatchObject({
    code: 'AZ_HOST_UNREACHABLE',
    message: `Docker can not be asked at ${socket}: ENOENT`,
  });
});

test('containers are registered as they come and go, also over a restart of the engine', async () => {
  await docker.run('one', ['--restart', 'always', '--label', 'agentzip.tenant=acme'], SLEEP);
  const bench = await Bench.start({}, { hosts: { intervalMs: 1000 } }, [adapter()]);
  const ids = async (): Promise<string> =>
    (await bench.controller.status()).sandboxes.map(({ id }) => id).join();
  const host = async () => (await bench.controller.status()).hosts[0];
  try {
    expect(await ids()).toBe('docker:one');
    expect(await bench.controller.getSandbox('docker:one')).toMatchObject({ host: 'docker', tenant: 'acme' });
    await docker.run('two', [], SLEEP);
    await until(async () => (await ids()) === 'docker:one,docker:two');
    await docker.ask('exec', '-d', 'two', '/bin/sleep', '1000');
    await until(async () => (await bench.controller.getSandbox('docker:two')).phase === 'tool_running');
    expect((await bench.controller.getSandbox('docker:two')).pids).toHaveLength(2);
    await docker.ask('rm', '-f', 'two');
    await until(async () => (await ids()) === 'docker:one');
    const [before] = (await bench.controller.getSandbox('docker:one')).pids;

    await docker.halt();
    await until(async () => (await host()).warnings.some((text) => text.includes('AZ_HOST_UNREACHABLE')));
    await until(async () => (await ids()) === '');
    await docker.boot();
    await until(async () => (await ids()) === 'docker:one');
    const [after] = (await bench.controller.getSandbox('docker:one')).pids;
    expect(after).not.toBe(before);
    await until(async () => (await host()).warnings.length === 0 && (await host()).following);
  } finally {
    await bench.stop();
  }
});
