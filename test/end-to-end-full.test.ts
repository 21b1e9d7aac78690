import { afterEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { Service, swappedBytes } from './support/service.js';

const PAGE = 4096;
const MIB = 1 << 20;
const STORE_MIB = 32;
const STAGING_MIB = 8;
const LIMIT = { timeout: 120_000 };

let service: Service | undefined;
let family: Family | undefined;
afterEach(async () => {
  await family?.stop();
  await service?.stop();
  family = service = undefined;
});

/** A sandbox with `mib` of memory that waits, on a pager with so small a store. */
async function waiting(storeMiB: number, fill: 'noise' | 'mix', mib: number) {
  service = await Service.start({ pager: { deviceMiB: 512, storeMiB, stagingMiB: STAGING_MIB } });
  family = await Family.start();
  const pid = await family.fork('one');
  expect(await family.ask('one', `${fill} one ${(mib * MIB) / PAGE}`)).toBe('ok');
  await service.client.putSandbox('one', { pids: [pid] });
  await service.event('llm_request_sent', 'one');
  return { service, family, pid };
}

test('what does not fit into the store stays in memory, with every byte right', LIMIT, async () => {
  const { service, family, pid } = await waiting(STORE_MIB, 'noise', 3 * STORE_MIB);
  // Each page takes 4 KiB of the store: it fills up at a third of them.
  const full = (STORE_MIB * MIB) / PAGE;
  await expect
    .poll(async () => (await service.pagerStatus()).usedSlots, { timeout: 20_000 })
    .toBeGreaterThan(full * 0.9);
  await expect.poll(() => swappedBytes(pid), { timeout: 20_000 }).toBeGreaterThan(2 * STORE_MIB * MIB);
  for (let turn = 0; turn < 2; turn++) {
    await service.event('tool_start', 'one');
    expect(await family.ask('one', 'verify')).toBe('ok');
    await service.event('llm_request_sent', 'one');
    await expect.poll(() => swappedBytes(pid), { timeout: 20_000 }).toBeGreaterThan(2 * STORE_MIB * MIB);
  }
  const { usedSlots, encodings, store, poolBytes, corruptPages } = await service.pagerStatus();
  // A page of noise takes 4 KiB; those few of the interpreter that compress are stored beside them.
  expect(encodings.raw + encodings.staged).toBeLessThanOrEqual(full);
  expect(store.arenaUsedBytes).toBeLessThanOrEqual(STORE_MIB * MIB);
  expect(poolBytes).toBeLessThan(2 * STORE_MIB * MIB);
  expect(corruptPages).toBe(0);
  // Only what the store took counts, and the operator is told that some was refused.
  const { sandboxes, pager, alerts } = await service.client.status();
  const [sandbox] = sandboxes;
  expect(sandbox.storedPages).toBeLessThanOrEqual(usedSlots);
  // Noise does not compress: a page takes its 4 KiB.
  expect(sandbox.ratio ?? 1).toBeCloseTo(1, 1);
  expect(pager.refusedWrites).toBeGreaterThan(full);
  expect(alerts).toMatchObject([
    { code: 'AZ_STORE_FULL', message: expect.stringContaining(`of ${STORE_MIB} MiB`) },
  ]);

  expect(await service.drain()).toMatchObject({ code: 0, stderr: '' });
  expect(await service.ended()).toBe(0);
  await service.isClean();
  expect(swappedBytes(pid)).toBe(0);
  expect(await family.ask('one', 'verify')).toBe('ok');
});

test('beyond the staging limit pages are compressed as they arrive', LIMIT, async () => {
  const { service, family } = await waiting(128, 'mix', 64);
  const { ratio } = await service.out('one');
  const { encodings, writes, corruptPages } = await service.pagerStatus();
  expect(writes).toBeGreaterThan((64 * MIB) / PAGE);
  // 48 MiB of it are no same-filled pages: six times what staging holds.
  const { staged, zstd, raw, duplicate, delta } = encodings;
  expect(zstd + raw + duplicate + delta + staged).toBeGreaterThan((48 * MIB) / PAGE);
  expect(staged).toBeLessThanOrEqual((STAGING_MIB * MIB) / PAGE);
  expect(ratio).toBeGreaterThan(1.5);
  expect(corruptPages).toBe(0);
  await service.event('tool_start', 'one');
  expect(await family.ask('one', 'verify')).toBe('ok');
});
