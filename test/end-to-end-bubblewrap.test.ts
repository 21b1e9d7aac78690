import { afterEach, beforeEach, expect, test } from 'vitest';
import { commandName } from '../src/memory/process.js';
import type { SandboxStatus } from '../src/plugin/client.js';
import { Service, swappedBytes } from './support/service.js';
import { Srt } from './support/srt.js';

const PAGES = 4096;
const BYTES = PAGES * 4096;
const LIMIT = { timeout: 120_000 };
const SOON = { timeout: 20_000 };

let service: Service;
let sandboxes: Srt[];
beforeEach(async () => {
  sandboxes = [];
  service = await Service.start({
    hosts: { intervalMs: 200, bubblewrap: { enabled: true, tenant: 'acme' } },
  });
});
afterEach(async () => {
  for (const srt of sandboxes) await srt.stop();
  await service?.stop();
});

async function start(): Promise<Srt> {
  const srt = await Srt.start();
  sandboxes.push(srt);
  return srt;
}

const found = async (): Promise<SandboxStatus[]> => (await service.client.status()).sandboxes;
const pythonOf = ({ pids }: SandboxStatus): number => pids.find((pid) => commandName(pid) === 'python3')!;

test(
  'sandbox-runtime runs as it does without us, and its sandboxes shrink and grow with every byte right',
  LIMIT,
  async () => {
    const [one, two] = [await start(), await start()];
    const digests = [await one.ask(`fill(${PAGES}, 'one')`), await two.ask(`fill(${PAGES}, 'two')`)];
    await expect
      .poll(async () => (await found()).map(({ pids }) => pids.length > 3), SOON)
      .toEqual([true, true]);
    const list = await found();
    const ids = list.map(({ id }) => id);
    for (const sandbox of list) {
      expect(sandbox).toMatchObject({ host: 'bubblewrap', mode: 'reclaim', tenant: 'acme', hazards: [] });
      expect(sandbox.ownedBytes).toBeGreaterThan(BYTES);
    }

    await service.event('llm_request_sent', ...ids);
    for (const id of ids) {
      const { swappedBytes: out, ownedBytes, ratio } = await service.out(id);
      expect(out).toBeGreaterThan(BYTES);
      expect(ownedBytes).toBeLessThan(BYTES / 10);
      expect(ratio).toBeGreaterThan(3);
    }
    // What the kernel itself says of the process in the sandbox.
    for (const sandbox of list) expect(swappedBytes(pythonOf(sandbox))).toBeGreaterThan(BYTES * 0.9);

    await service.event('llm_first_token', ...ids);
    await service.event('tool_start', ...ids);
    expect([await one.ask('digest()'), await two.ask('digest()')]).toEqual(digests);
    const changed = await one.ask('change(5000)');
    await service.event('tool_end', ...ids);

    // Out again, and back before pre-pause answers.
    await service.event('llm_request_sent', ...ids);
    for (const id of ids) await service.out(id);
    for (const id of ids) await service.client.prePause(id);
    for (const sandbox of list) expect(swappedBytes(pythonOf(sandbox))).toBe(0);
    expect([await one.ask('digest()'), await two.ask('digest()')]).toEqual([changed, digests[1]]);

    // What a sandbox has out goes with it.
    for (const id of ids) await service.client.postResume(id);
    await service.event('llm_request_sent', ...ids);
    for (const id of ids) await service.out(id);
    for (const srt of sandboxes) await srt.stop();
    const left = async (): Promise<number> => (await service.client.status()).pager.usedSlots;
    await expect.poll(async () => (await found()).length, SOON).toBe(0);
    await expect.poll(left, SOON).toBeLessThan(PAGES / 10);
  },
);
