import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { FoundSandbox, HostListener } from '../src/hosts/adapter.js';
import { ContainerdAdapter, type ContainerdOptions } from '../src/hosts/containerd.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { Containerd } from './support/containerd.js';
import { Bench, until } from './support/controller.js';

const SLEEP = ['/bin/sleep', '1000'];
const TEMPLATE_REF = 'agents.x-k8s.io/sandbox-template-ref-hash';

let containerd: Containerd;
beforeAll(async () => {
  containerd = await Containerd.start();
});
afterAll(() => containerd?.stop());
afterEach(() => containerd.clear());

const adapter = (options: Partial<ContainerdOptions> = {}): ContainerdAdapter =>
  new ContainerdAdapter({ ...DEFAULT_POLICY.hosts.containerd, address: containerd.address, ...options });

const byId = (found: FoundSandbox[]): FoundSandbox[] => found.sort((a, b) => a.id.localeCompare(b.id));

/** What a listener is told, a word each, but for `changed`. */
function listen(to: ContainerdAdapter): { heard: string[]; changes: () => number; end: () => void } {
  const heard: string[] = [];
  let changes = 0;
  const listener: HostListener = {
    changed: () => changes++,
    tool: (id, type, name) => heard.push([id, type, name].filter(Boolean).join(' ')),
    frozen: (id, on) => heard.push(`${id} ${on ? 'frozen' : 'thawed'}`),
    failed: (error) => heard.push(`failed: ${error.message}`),
  };
  return { heard, changes: () => changes, end: to.follow(listener) };
}

test('a container has its cgroup, the digest of its image for a template, and is its own tenant', async () => {
  await containerd.run('one', {}, SLEEP);
  await containerd.run('two', { 'agentzip.tenant': 'acme', 'agentzip.template': 'py' }, SLEEP);
  await containerd.ask(
    'default',
    'containers',
    'create',
    '--snapshotter',
    'native',
    containerd.image,
    'never',
  );
  const [one, two, ...others] = byId(await adapter().find());
  expect(one).toMatchObject({
    ...{ id: 'containerd:default.one', cgroup: expect.stringMatching(`/${containerd.parent}/one$`) },
    ...{
      template: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      tenant: undefined,
      mode: 'reclaim',
      hazards: [],
    },
  });
  expect(two).toMatchObject({ id: 'containerd:default.two', template: 'py', tenant: 'acme' });
  expect(others).toEqual([]);
});

test('a pod’s container has the labels of the pod, its namespace for a tenant; its sandbox is none', async () => {
  await containerd.pod(
    'py-1',
    'team',
    { [TEMPLATE_REF]: 'f00d', 'agents.x-k8s.io/sandbox-name-hash': 'b1' },
    SLEEP,
  );
  await containerd.pod('plain', 'other', {}, SLEEP);
  const found = byId(await adapter().find());
  expect(found.map(({ id, tenant, template }) => [id, tenant, template])).toEqual([
    ['containerd:other.plain.agent', 'other', expect.stringMatching(/^sha256:[0-9a-f]{64}$/)],
    ['containerd:team.py-1.agent', 'team', 'f00d.agent'],
  ]);
  const include = ['label:agents.x-k8s.io/sandbox-name-hash'];
  expect((await adapter({ include }).find()).map(({ id }) => id)).toEqual(['containerd:team.py-1.agent']);
  expect(await adapter({ namespaces: ['default'] }).find()).toEqual([]);
});

test('calls, pauses, starts and ends are told', async () => {
  const own = adapter();
  await containerd.run('one', {}, SLEEP);
  const pod = await containerd.pod('py-1', 'team', {}, SLEEP);
  await own.find();
  const { heard, changes, end } = listen(own);
  try {
    await until(() => changes() === 1);
    await containerd.ask('default', 'tasks', 'exec', '--exec-id', 'call', 'one', '/bin/sleep', '0.3');
    await until(() => heard.length === 2);
    expect(heard.splice(0)).toEqual([
      expect.stringMatching(/^containerd:default.one tool_start/),
      'containerd:default.one tool_end',
    ]);
    await containerd.exec(pod, ['/bin/sleep', '0.3']);
    await until(() => heard.length === 2);
    expect(heard.splice(0)).toEqual([
      'containerd:team.py-1.agent tool_start sleep',
      'containerd:team.py-1.agent tool_end',
    ]);
    await containerd.ask('default', 'tasks', 'pause', 'one');
    await containerd.ask('default', 'tasks', 'resume', 'one');
    await until(() => heard.length === 2);
    expect(heard.splice(0)).toEqual(['containerd:default.one frozen', 'containerd:default.one thawed']);
    const before = changes();
    await containerd.run('two', {}, SLEEP);
    await until(() => changes() > before);
    // A call that its container does not survive.
    await containerd.ask('default', 'tasks', 'exec', '-d', '--exec-id', 'long', 'one', ...SLEEP);
    await until(() => heard.length === 1);
    await containerd.ask('default', 'tasks', 'kill', '-s', 'SIGKILL', 'one');
    await until(() => heard.includes('containerd:default.one tool_end'));
  } finally {
    end();
  }
});

test('calls are none where the policy says so', async () => {
  const own = adapter({ calls: false });
  await containerd.run('one', {}, SLEEP);
  await own.find();
  const { heard, changes, end } = listen(own);
  try {
    await until(() => changes() === 1);
    await containerd.ask('default', 'tasks', 'exec', '--exec-id', 'call', 'one', '/bin/true');
    await containerd.ask('default', 'tasks', 'pause', 'one');
    await containerd.ask('default', 'tasks', 'resume', 'one');
    await until(() => heard.length === 2);
    expect(heard[0]).toBe('containerd:default.one frozen');
  } finally {
    end();
  }
});

test('one that is not there is named', async () => {
  const address = `${containerd.folder}/none.sock`;
  await expect(adapter({ address }).find()).rejects.toMatchObject({
    code: 'AZ_HOST_UNREACHABLE',
    message: `containerd can not be asked at ${address}: ENOENT`,
  });
});

test('containers are registered as they come and go, and stay while containerd is away', async () => {
  await containerd.run('one', {}, SLEEP);
  const bench = await Bench.start({}, { hosts: { intervalMs: 1000 } }, [adapter()]);
  const ids = async (): Promise<string> =>
    (await bench.controller.status()).sandboxes.map(({ id }) => id.slice('containerd:'.length)).join();
  const host = async () => (await bench.controller.status()).hosts[0];
  try {
    expect(await ids()).toBe('default.one');
    await containerd.pod('py-1', 'team', {}, SLEEP);
    await until(async () => (await ids()) === 'default.one,team.py-1.agent');
    expect(await bench.controller.getSandbox('containerd:team.py-1.agent')).toMatchObject({
      ...{ host: 'containerd', tenant: 'team', mode: 'reclaim' },
    });
    await containerd.removePod();
    await until(async () => (await ids()) === 'default.one');
    await containerd.halt();
    await until(async () => (await host()).warnings.some((text) => text.includes('AZ_HOST_UNREACHABLE')));
    expect(await ids()).toBe('default.one');
    await containerd.boot();
    await until(async () => (await host()).warnings.length === 0 && (await host()).following);
    expect(await ids()).toBe('default.one');
  } finally {
    await bench.stop();
  }
});
