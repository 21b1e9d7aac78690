import { afterEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { Service, swappedBytes } from './support/service.js';

const PAGES = 2048;
const BYTES = PAGES * 4096;

let service: Service | undefined;
let family: Family | undefined;
afterEach(async () => {
  await family?.stop();
  await service?.stop();
  family = service = undefined;
});

test(
  'with hotPhases, pages that the last tool used stay in the next wait',
  { timeout: 120_000 },
  async () => {
    service = await Service.start({ pageout: { hotPhases: 1 }, prefetch: { enabled: false } });
    family = await Family.start();
    const pid = await family.fork('one');
    expect(await family.ask('one', `mix one ${PAGES}`)).toBe('ok');
    await service.client.putSandbox('one', { pids: [pid] });
    // The first wait knows of no tool yet: all goes out.
    await service.event('llm_request_sent', 'one');
    await service.out('one');
    await service.event('tool_start', 'one');
    expect(await family.ask('one', 'verify')).toBe('ok');
    await service.event('llm_request_sent', 'one');
    const { client } = service;
    await expect.poll(async () => (await client.getSandbox('one')).demandFaults).toBeGreaterThan(PAGES);
    await expect.poll(() => swappedBytes(pid)).toBeLessThan(BYTES / 2);
    // A wait later they were not used for a phase.
    await service.event('tool_start', 'one');
    await service.event('llm_request_sent', 'one');
    await service.out('one');
    expect(swappedBytes(pid)).toBeGreaterThan(BYTES);
    await service.event('tool_start', 'one');
    expect(await family.ask('one', 'verify')).toBe('ok');
  },
);
