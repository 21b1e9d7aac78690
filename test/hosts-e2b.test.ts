import { spawnSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { E2bAdapter } from '../src/hosts/e2b.js';
import { HostLayout, type Impostor } from './support/host-layout.js';

let layout: HostLayout;
let servers: Server[] = [];
beforeEach(() => {
  layout = new HostLayout();
});
afterEach(async () => {
  for (const server of servers) server.close();
  servers = [];
  await layout.stop();
});

const VERSION = 'v1.14.1_431f1fc';
const KERNEL = 'vmlinux-6.1.158';
const adapter = (prePause = false) => new E2bAdapter({ mode: 'reclaim', prePause }, layout.root);
const found = async (from: E2bAdapter, pid: number) =>
  (await from.find()).filter(({ pids = [] }) => pids.includes(pid));

/** A sandbox as the orchestrator starts it: the VMM in its cgroup, its socket named in the arguments. */
async function sandbox(id: string, rand = 'x7k2'): Promise<Impostor> {
  const vmm = await layout.start(`fc-versions/${VERSION}/x86_64/firecracker`, [
    '--api-sock',
    `/tmp/fc-${id}-${rand}.sock`,
  ]);
  layout.file(`sys/fs/cgroup/e2b/sbx-${id}-${rand}/cgroup.procs`, `${vmm.pid}\n`);
  return vmm;
}

function build(id: string, firecracker = VERSION, kernel = KERNEL): void {
  const template = { build_id: id, kernel_version: kernel, firecracker_version: firecracker };
  layout.file(
    `orchestrator/template/${id}/cache/0f1e/metadata.json`,
    JSON.stringify({ version: 2, template }),
  );
}

test('a sandbox is found by its cgroup, and by its socket where there is none', async () => {
  const one = await sandbox('i1a2b3c4');
  expect(await found(adapter(), one.pid)).toMatchObject([{ id: 'e2b:i1a2b3c4', pids: [one.pid] }]);
  const two = await layout.start(`fc-versions/${VERSION}/firecracker`, [
    '--api-sock',
    '/tmp/fc-i-with-dash-r1.sock',
  ]);
  expect(await found(adapter(), two.pid)).toMatchObject([{ id: 'e2b:i-with-dash' }]);
});

test('a resumed sandbox keeps its id, and has its new process', async () => {
  const before = await sandbox('isame', 'old1');
  await before.stop();
  const after = await sandbox('isame', 'new1');
  expect(await found(adapter(), after.pid)).toMatchObject([{ id: 'e2b:isame', pids: [after.pid] }]);
});

test('guest memory in huge TLB pages is observed, and the reason said', async () => {
  const vmm = await sandbox('ihuge');
  // MAP_HUGETLB without reserving any: the mapping is there even where the pool is empty.
  const mapped = await vmm.ask('map_anonymous(16384, 0x40000 | 0x4000)');
  expect(Number(mapped)).toBeGreaterThan(0);
  const [seen] = await found(adapter(true), vmm.pid);
  expect(seen).toMatchObject({ mode: 'observe', hazards: ['hugetlb'] });
  expect(seen.why).toContain('huge TLB');
});

test('guest memory of small pages is observed until pre-pause is promised: a pause would lose what is swapped', async () => {
  const vmm = await sandbox('ismall');
  await vmm.ask('map_anonymous(16384)');
  expect(await found(adapter(), vmm.pid)).toMatchObject([
    { mode: 'observe', hazards: ['swap_loses_snapshot'] },
  ]);
  expect(await found(adapter(true), vmm.pid)).toMatchObject([
    { mode: 'reclaim', hazards: ['swap_loses_snapshot'] },
  ]);
  await vmm.ask("map_memfd('guest_mem', 16384)");
  expect(await found(adapter(true), vmm.pid)).toMatchObject([
    { mode: 'observe', hazards: ['shared_memfd', 'swap_loses_snapshot'] },
  ]);
});

test('its template is the build that alone can be it, and otherwise not known', async () => {
  const vmm = await sandbox('itemplate');
  build('b-other-version', 'v1.10.1_30cbb07');
  expect((await found(adapter(), vmm.pid))[0].template).toBeUndefined();
  build('b-one');
  expect((await found(adapter(), vmm.pid))[0].template).toBe('b-one');
  build('b-two');
  expect((await found(adapter(), vmm.pid))[0].template).toBeUndefined();
  layout.file('orchestrator/template/b-two/cache/0f1e/metadata.json', '{ damaged');
  expect((await found(adapter(), vmm.pid))[0].template).toBe('b-one');
});

test('its network is named by the namespace it is in', async () => {
  const vmm = await sandbox('inet');
  mkdirSync(layout.path('run/netns'), { recursive: true });
  writeFileSync(layout.path('run/netns/ns-3'), '');
  // `ip netns` binds the namespace there; a link leads to the same file for whoever follows it.
  spawnSync('ln', ['-s', `/proc/${vmm.pid}/ns/net`, layout.path('run/netns/ns-17')]);
  expect((await found(adapter(), vmm.pid))[0].why).toContain('network ns-17');
});

test('nothing is connected to, opened or made', async () => {
  const vmm = await sandbox('iquiet');
  await vmm.ask('map_anonymous(16384)');
  layout.folder('tmp');
  let connections = 0;
  for (const name of ['fc-iquiet-x7k2.sock', 'uffd-iquiet-x7k2.sock']) {
    const server = createServer(() => connections++);
    await new Promise<void>((resolve) => server.listen(layout.path('tmp', name), resolve));
    servers.push(server);
  }
  const fifo = layout.path('tmp/fc-metrics-iquiet-x7k2.fifo');
  expect(spawnSync('mkfifo', [fifo]).status).toBe(0);
  const parts = ['fc-versions', 'sys', 'tmp'];
  const listing = () => [
    readdirSync(layout.root).sort(),
    ...parts.map((part) => readdirSync(layout.path(part), { recursive: true, encoding: 'utf8' }).sort()),
  ];
  const before = listing();
  const one = adapter(true);
  const end = one.follow({ changed() {}, tool() {}, failed() {} });
  expect(await found(one, vmm.pid)).toHaveLength(1);
  end();
  expect(connections).toBe(0);
  expect(listing()).toEqual(before);
  // A pipe that somebody reads could be opened to write.
  expect(() => closeSync(openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK))).toThrow(/ENXIO/);
});

test('cgroups that come and go are told', async () => {
  layout.folder('sys/fs/cgroup/e2b');
  let changes = 0;
  const end = adapter().follow({ changed: () => changes++, tool() {}, failed() {} });
  layout.folder('sys/fs/cgroup/e2b/sbx-inew-r1');
  await expect.poll(() => changes).toBeGreaterThan(0);
  end();
});

test('a host whose cgroups can not be followed says so', () => {
  const failures: Error[] = [];
  adapter().follow({ changed() {}, tool() {}, failed: (error) => failures.push(error) })();
  expect(failures).toMatchObject([{ code: 'AZ_HOST_UNREACHABLE' }]);
});
