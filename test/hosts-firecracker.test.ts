import { linkSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { dirname } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FirecrackerAdapter } from '../src/hosts/firecracker.js';
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

const ANY = { mode: 'reclaim', template: null, tenant: null } as const;
const MEMORY_PAGES = 8192;
const JAIL = 'srv/jailer/firecracker';
const adapter = (prePause = false) => new FirecrackerAdapter({ ...ANY, prePause }, layout.root);
/** Those of this test: other tests' machines may run beside it. */
const found = async (from: FirecrackerAdapter, ...pids: number[]) =>
  (await from.find()).filter(({ pids: [pid] = [] }) => pids.includes(pid));

/** A machine as the jailer starts it, with a snapshot's memory mapped. */
async function machine(id: string, file: string | null, more: string[] = []): Promise<Impostor> {
  layout.folder(JAIL, id, 'root', 'run');
  const vmm = await layout.start(`${JAIL}/${id}/root/firecracker`, ['--id', id, ...more]);
  if (file !== null) await vmm.ask(`map_private('${file}', 0, ${MEMORY_PAGES})`);
  return vmm;
}

/** Answers as its API does; counts how often it was asked. */
async function api(id: string, tracked: boolean | string): Promise<{ asked: number }> {
  const count = { asked: 0 };
  const server = createServer((request, response) => {
    count.asked++;
    if (request.method !== 'GET' || request.url !== '/machine-config') response.writeHead(400).end();
    else if (typeof tracked === 'string') response.end(tracked);
    else response.end(JSON.stringify({ vcpu_count: 2, mem_size_mib: 32, track_dirty_pages: tracked }));
  });
  const path = layout.path(JAIL, id, 'root/run/firecracker.socket');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  servers.push(server);
  return count;
}

test('a jailed machine is found with its id, its process and its memory file', async () => {
  const file = layout.file('snapshots/base.mem', new Uint8Array(MEMORY_PAGES * 4096));
  const [one, two] = [await machine('vm-one', file), await machine('vm-two', file)];
  await api('vm-one', true);
  await api('vm-two', true);
  const sandboxes = await found(adapter(), one.pid, two.pid);
  expect(sandboxes).toEqual([
    expect.objectContaining({ id: 'firecracker:vm-one', pids: [one.pid], mode: 'reclaim', hazards: [] }),
    expect.objectContaining({ id: 'firecracker:vm-two', pids: [two.pid], mode: 'reclaim', hazards: [] }),
  ]);
  expect(sandboxes[0].template).toMatch(/^memory-[0-9a-f]+-[0-9a-f]+-\d+$/);
  expect(sandboxes[1].template).toBe(sandboxes[0].template);
  const reached = sandboxes.map(({ memoryFile = '' }) => statSync(memoryFile).ino);
  expect(reached).toEqual([statSync(file).ino, statSync(file).ino]);
});

test('without dirty page tracking its snapshots would lose swapped pages: observed, unless pre-pause is promised', async () => {
  const file = layout.file('base.mem', new Uint8Array(MEMORY_PAGES * 4096));
  const vmm = await machine('vm', file);
  const asked = await api('vm', false);
  expect(await found(adapter(), vmm.pid)).toMatchObject([
    { mode: 'observe', hazards: ['swap_loses_snapshot'] },
  ]);
  const promised = adapter(true);
  expect(await found(promised, vmm.pid)).toMatchObject([
    { mode: 'reclaim', hazards: ['swap_loses_snapshot'] },
  ]);
  await promised.find();
  // Once by each adapter: the API of a machine serves one at a time.
  expect(asked).toEqual({ asked: 2 });
});

test.each([
  ['does not listen', null],
  ['answers something else', 'no json'],
  ['does not say', '{}'],
])('an API that %s counts as one without tracking', async (_what, answer) => {
  const file = layout.file('base.mem', new Uint8Array(MEMORY_PAGES * 4096));
  const vmm = await machine('vm', file);
  if (answer !== null) await api('vm', answer);
  expect(await found(adapter(), vmm.pid)).toMatchObject([
    { mode: 'observe', hazards: ['swap_loses_snapshot'] },
  ]);
});

test('a machine that has not loaded its snapshot is observed, and looked at again; its API is not asked meanwhile', async () => {
  const file = layout.file('base.mem', new Uint8Array(MEMORY_PAGES * 4096));
  const vmm = await machine('vm', null);
  const asked = await api('vm', true);
  const one = adapter();
  expect(await found(one, vmm.pid)).toMatchObject([{ mode: 'observe', hazards: [] }]);
  expect(asked).toEqual({ asked: 0 });
  await vmm.ask(`map_private('${file}', 0, ${MEMORY_PAGES})`);
  expect(await found(one, vmm.pid)).toMatchObject([{ mode: 'reclaim' }]);
});

test('a memory file is reached in the folder of the jail, which outlives the machine', async () => {
  const file = layout.file('base.mem', new Uint8Array(MEMORY_PAGES * 4096));
  const vmm = await machine('vm', file);
  // As in a jail, where the file has another name than the host gave it.
  const jailed = layout.path(JAIL, 'vm/root', file);
  layout.folder(JAIL, 'vm/root', dirname(file));
  linkSync(file, jailed);
  expect(await found(adapter(), vmm.pid)).toMatchObject([{ memoryFile: jailed }]);
});

test('machines of one name get one each, and a machine without a name has its own', async () => {
  const first = await layout.start('a/firecracker', ['--id=twin']);
  const second = await layout.start('b/firecracker', ['--id=twin']);
  const third = await layout.start('c/firecracker', ['--api-sock', '/run/x.sock']);
  const ids = (await found(adapter(), first.pid, second.pid, third.pid)).map(({ id }) => id);
  expect(new Set(ids).size).toBe(3);
  expect(ids).toContain('firecracker:twin');
  for (const id of ids) expect(id).toMatch(/^firecracker:(twin(\.\d+-\d+)?|\d+-\d+)$/);
  expect((await found(adapter(), first.pid, second.pid, third.pid)).map(({ id }) => id)).toEqual(ids);
});

test('machines of E2B are left to its adapter', async () => {
  const vmm = await layout.start('fc-versions/v1.12.1_210cbac/firecracker', [
    '--api-sock',
    '/tmp/fc-isandbox1-r4nd.sock',
  ]);
  expect(await found(adapter(), vmm.pid)).toEqual([]);
});
