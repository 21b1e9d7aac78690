import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SandboxStatus } from '../src/controller/api.js';
import { cgroupMounts } from '../src/memory/cgroup.js';
import { Docker } from './support/docker.js';
import { Service } from './support/service.js';
import { attribute, readSpans } from './support/spans.js';

const NAMES = ['box-1', 'box-2', 'box-3'];
/** 32 MiB that all containers have alike, and 4 MiB of each one's own. */
const SHARED_PAGES = 8192;
const OWN_PAGES = 1024;
const BYTES = (SHARED_PAGES + OWN_PAGES) * 4096;
const WAIT_MS = 60_000;

let docker: Docker;
let service: Service;
beforeEach(async () => {
  docker = await Docker.start();
  service = await Service.start({ hosts: { docker: { enabled: true, socket: docker.socket } } });
});
afterEach(async () => {
  await service?.stop();
  await docker?.stop();
});

/** Has the container's program compare its memory, and tells what came of it. */
const VERIFY = `/bin/rm -f /result; /bin/kill -USR1 1
  while ! /bin/test -e /result; do /bin/sleep 0.1; done; /bin/cat /result`;

const shell = (name: string, command: string): Promise<string> =>
  docker.ask('exec', name, '/bin/sh', '-c', command);
const sandbox = (name: string): Promise<SandboxStatus> => service.client.getSandbox(`docker:${name}`);

/** What the container takes, as `docker stats` has it. */
async function usedBytes(name: string): Promise<number> {
  const { path, version } = cgroupMounts().find(({ memory }) => memory)!;
  const id = await docker.ask('inspect', '-f', '{{.Id}}', name);
  const file = version === 1 ? 'memory.usage_in_bytes' : 'memory.current';
  return Number(readFileSync(`${path}/${docker.parent}/${id}/${file}`, 'latin1'));
}

test(
  'the memory of three containers falls between the calls of their agents, and every byte comes back',
  { timeout: 180_000 },
  async () => {
    const program = ['/usr/bin/python3', '/fixtures/container_agent.py'];
    for (const name of NAMES) {
      const label = ['--label', 'agentzip.tenant=acme'];
      await docker.run(name, label, [...program, name, String(SHARED_PAGES), String(OWN_PAGES)]);
    }
    for (const name of NAMES)
      await expect.poll(() => shell(name, '/bin/cat /ready'), { timeout: WAIT_MS }).toBe('ready');
    const before = await Promise.all(NAMES.map(usedBytes));
    for (const bytes of before) expect(bytes).toBeGreaterThan(BYTES);

    // Nothing is told: the last `docker exec` has ended, so the agents outside wait for their model.
    for (const name of NAMES) await service.out(`docker:${name}`);
    const waiting = await Promise.all(NAMES.map(sandbox));
    for (const { phase, phaseSource, swappedBytes, template } of waiting) {
      expect({ phase, phaseSource }).toEqual({ phase: 'llm_wait', phaseSource: 'probes' });
      expect(swappedBytes).toBeGreaterThan(BYTES);
      expect(template).toMatch(/^sha256-[0-9a-f]{64}$/);
    }
    for (const [i, name] of NAMES.entries())
      expect(await usedBytes(name)).toBeLessThan(before[i] - BYTES * 0.9);
    const { pager, templates } = await service.client.status();
    // The first that waited is the template of the others, without being told.
    expect(templates).toMatchObject([{ id: `${waiting[0].template}@acme`, tenant: 'acme', public: false }]);
    expect(pager.encodings.template).toBeGreaterThan(NAMES.length * SHARED_PAGES * 0.9);
    // What is each one's own does not compress at all.
    expect(pager.poolBytes).toBeLessThan(NAMES.length * BYTES * 0.5);

    for (const name of NAMES) {
      expect(await shell(name, VERIFY)).toBe('ok');
      expect((await sandbox(name)).lastWindow).toMatchObject({ reason: 'tool_start' });
    }

    // A container that is paused waits at once, and its pages are taken although it is frozen.
    await docker.ask('pause', 'box-1');
    await service.out('docker:box-1');
    expect((await sandbox('box-1')).phase).toBe('llm_wait');
    await docker.ask('unpause', 'box-1');
    await expect.poll(async () => (await sandbox('box-1')).phase, { timeout: WAIT_MS }).not.toBe('llm_wait');
    expect(await shell('box-1', VERIFY)).toBe('ok');
    await docker.ask('rm', '-f', ...NAMES);
    await expect.poll(async () => (await service.client.status()).sandboxes).toEqual([]);
    const spanned = (): unknown[] => {
      const windows = readSpans(`${service.folder}/spans`).filter(({ name }) => name === 'agentzip.window');
      return [...new Set(windows.map((span) => attribute(span, 'sandbox.id')))].sort();
    };
    await expect.poll(spanned, { timeout: WAIT_MS }).toEqual(NAMES.map((name) => `docker:${name}`));
  },
);
