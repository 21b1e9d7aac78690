import { truncateSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SandboxStatus } from '../src/plugin/client.js';
import type { PartialPolicy } from '../src/policy/policy.js';
import { HostLayout, type Impostor } from './support/host-layout.js';
import { testRandom } from './support/seed.js';
import { Service, swappedBytes } from './support/service.js';

const PAGE = 4096;
const PAGES = 4096;
/** Pages that a machine has written. */
const WRITTEN = 3000;
const LIMIT = { timeout: 120_000 };
const SOON = { timeout: 20_000 };

let service: Service | undefined;
let layout: HostLayout;
beforeEach(() => {
  layout = new HostLayout();
});
afterEach(async () => {
  await layout.stop();
  await service?.stop();
  service = undefined;
});

const start = async (more: PartialPolicy = {}): Promise<Service> =>
  (service = await Service.start({
    ...more,
    hosts: {
      intervalMs: 200,
      firecracker: { enabled: true, prePause: true, tenant: 'acme' },
      e2b: { enabled: true, prePause: true },
    },
  }));

/** Guest memory: pages that do not compress, so that only the template can make them small. */
function memoryFile(): string {
  return layout.file('snapshots/base.mem', testRandom('guest-memory').bytes(PAGES * PAGE));
}

interface Machine {
  vmm: Impostor;
  address: string;
  digest: string;
}

/** A VMM under its platform's name, whose guest has written 64 bytes into each of its first pages. */
async function machine(path: string, args: string[], map: string, value: number): Promise<Machine> {
  const vmm = await layout.start(path, args);
  const address = await vmm.ask(map);
  await vmm.ask(`write(${address}, ${WRITTEN}, ${value})`);
  return { vmm, address, digest: await digestOf(vmm, address) };
}

/** Without a copy, which would be memory of its own. */
const digestOf = (vmm: Impostor, address: string): Promise<string> =>
  vmm.ask(
    `__import__('hashlib').sha256((ctypes.c_char * ${PAGES * PAGE}).from_address(${address})).hexdigest()`,
  );

const jailed = (id: string, file: string, value: number): Promise<Machine> =>
  machine(
    `srv/jailer/firecracker/${id}/root/firecracker`,
    ['--id', id],
    `map_private('${file}', 0, ${PAGES})`,
    value,
  );

const found = async (id: string): Promise<SandboxStatus | undefined> =>
  (await service!.client.status()).sandboxes.find((sandbox) => sandbox.id === id);

test(
  'machines restored from one memory file shrink to what they wrote, against the file itself',
  LIMIT,
  async () => {
    const { client } = await start();
    const file = memoryFile();
    const machines = [await jailed('vm-1', file, 1), await jailed('vm-2', file, 77)];
    const ids = ['firecracker:vm-1', 'firecracker:vm-2'];
    for (const id of ids) {
      await expect.poll(async () => (await found(id))?.mode, SOON).toBe('reclaim');
      expect(await found(id)).toMatchObject({ tenant: 'acme', hazards: ['swap_loses_snapshot'] });
    }
    await expect.poll(async () => (await client.status()).templates.length, SOON).toBe(1);
    const [template] = (await client.status()).templates;
    expect(template).toMatchObject({ id: (await found(ids[0]))?.template, tenant: 'acme', pages: PAGES });

    await service!.event('llm_request_sent', ...ids);
    for (const id of ids) {
      const { swappedBytes: out, ratio } = await service!.out(id);
      expect(out).toBeGreaterThanOrEqual(WRITTEN * PAGE);
      // Random bytes: without their base they would take more than they have.
      expect(ratio).toBeGreaterThan(8);
    }
    const { encodings } = (await client.status()).pager;
    expect(encodings.delta + encodings.sparse).toBeGreaterThan(WRITTEN);
    await service!.event('llm_first_token', ...ids);
    await service!.event('tool_start', ...ids);
    for (const { vmm, address, digest } of machines) expect(await digestOf(vmm, address)).toBe(digest);
  },
);

test(
  'a memory file that changes is no base any more, and what went before is an error or itself',
  LIMIT,
  async () => {
    const { client } = await start();
    const file = memoryFile();
    await jailed('vm-1', file, 1);
    await expect.poll(async () => (await client.status()).templates.length, SOON).toBe(1);
    // As its host must never do.
    writeFileSync(file, testRandom('other').bytes(PAGE), { flag: 'r+' });
    await service!.event('llm_request_sent', 'firecracker:vm-1');
    await service!.out('firecracker:vm-1');
    // Random bytes without a base.
    const { ratio } = await client.getSandbox('firecracker:vm-1');
    expect(ratio).toBeLessThan(1.5);
    expect((await client.status()).pager.corruptPages).toBe(0);
  },
);

/** A machine of E2B's: guest memory is no file's. */
const ofE2b = (id: string): Promise<Machine> =>
  machine(
    'fc-versions/v1.6.0_fake/firecracker',
    ['--api-sock', `/tmp/fc-${id}-r4nd.sock`],
    `map_anonymous(${PAGES})`,
    3,
  );

test('all of a machine is there from pre-pause to post-resume', LIMIT, async () => {
  // Memory always counts as short, so that every wait is to be used.
  const { client } = await start({ mode: 'pressure', pressure: { availablePercent: 100 } });
  const machines = [await jailed('vm-1', memoryFile(), 1), await ofE2b('isandbox')];
  const ids = ['firecracker:vm-1', 'e2b:isandbox'];
  const out = () => machines.map(({ vmm }) => swappedBytes(vmm.pid));
  const digests = () => Promise.all(machines.map(({ vmm, address }) => digestOf(vmm, address)));
  for (const id of ids) await expect.poll(async () => (await found(id))?.mode, SOON).toBe('reclaim');
  await service!.event('llm_request_sent', ...ids);
  for (const id of ids) await service!.out(id);
  for (const bytes of out()) expect(bytes).toBeGreaterThan(WRITTEN * PAGE * 0.9);

  for (const id of ids) await client.prePause(id);
  expect(out()).toEqual([0, 0]);
  // Whatever happens meanwhile: waits, tools, faults that would have others follow, new looks at the platform.
  for (const end of ['llm_first_token', 'tool_start', 'llm_response_end', 'tool_start'] as const) {
    await service!.event('llm_request_sent', ...ids);
    await sleep(250);
    await service!.event(end, ...ids);
    expect(out()).toEqual([0, 0]);
  }
  for (const id of ids) expect(await found(id)).toMatchObject({ windows: 1, swappedBytes: 0 });
  expect(await digests()).toEqual(machines.map(({ digest }) => digest));

  for (const id of ids) await client.postResume(id);
  await service!.event('llm_request_sent', ...ids);
  // In the middle of a window, too.
  await expect.poll(() => Math.min(...out()), SOON).toBeGreaterThan(0);
  await Promise.all(ids.map((id) => client.prePause(id)));
  expect(out()).toEqual([0, 0]);
  expect(await digests()).toEqual(machines.map(({ digest }) => digest));
});

test('a pause outlives the controller that is killed in it, until post-resume', LIMIT, async () => {
  const { client } = await start({ mode: 'pressure', pressure: { availablePercent: 100 } });
  const { vmm, address, digest } = await ofE2b('isandbox');
  const id = 'e2b:isandbox';
  await expect.poll(async () => (await found(id))?.mode, SOON).toBe('reclaim');
  await service!.event('llm_request_sent', id);
  await service!.out(id);
  await client.prePause(id);
  expect(swappedBytes(vmm.pid)).toBe(0);
  await service!.end('SIGKILL');
  await service!.start();
  await expect.poll(async () => (await found(id))?.mode, SOON).toBe('reclaim');
  await service!.event('llm_request_sent', id);
  await sleep(1_000);
  expect(await found(id)).toMatchObject({ windows: 0, swappedBytes: 0 });
  expect(swappedBytes(vmm.pid)).toBe(0);
  await service!.event('llm_first_token', id);
  await client.postResume(id);
  await service!.event('llm_request_sent', id);
  await service!.out(id);
  expect(await digestOf(vmm, address)).toBe(digest);
});

test('a memory file that is cut off costs its own machines, and nobody else', LIMIT, async () => {
  const { client } = await start();
  const file = memoryFile();
  const [lost, other] = [await jailed('vm-1', file, 1), await ofE2b('isandbox')];
  const ids = ['firecracker:vm-1', 'e2b:isandbox'];
  await expect.poll(async () => (await client.status()).templates.length, SOON).toBe(1);
  for (const id of ids) await expect.poll(async () => (await found(id))?.mode, SOON).toBe('reclaim');
  await service!.event('llm_request_sent', ...ids);
  for (const id of ids) await service!.out(id);
  truncateSync(file, 0);
  // The kernel drops the machine's own copies with it (unmap_mapping_range), here or without us.
  await expect(digestOf(lost.vmm, lost.address)).rejects.toThrow('has ended');
  expect(await digestOf(other.vmm, other.address)).toBe(other.digest);
  await service!.event('llm_first_token', 'e2b:isandbox');
  await service!.event('llm_request_sent', 'e2b:isandbox');
  await service!.out('e2b:isandbox');
  expect(await digestOf(other.vmm, other.address)).toBe(other.digest);
  const { takeovers } = (await client.status()).pager;
  // Once, if the kernel reads such a page ahead: what stands by leaves the file alone.
  expect(takeovers).toBeLessThanOrEqual(1);
});
