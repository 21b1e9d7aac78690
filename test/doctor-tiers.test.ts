import { expect, test } from 'vitest';
import { requireHost } from '../src/plugin/doctor.js';
import { tiers } from '../src/plugin/doctor/tiers.js';
import { sourceRelease, tierObstacle } from '../src/pager/swap/tier-choice.js';

const facts = { release: '6.12.117', zramModule: true, zramWriteback: null, zswap: true };

test('kernels whose zswap loses or mixes up pages are refused by name', () => {
  const obstacle = (release: string) => tierObstacle('zswap', { ...facts, release });
  for (const good of ['6.1.30', '6.1.192', '6.4.0', '6.9.1', '6.12.117+deb12-amd64', '6.18.4', '7.0.0'])
    expect(obstacle(good), good).toBeNull();
  for (const bad of ['6.1.0', '6.1.29', '6.2.3', '6.3.0']) expect(obstacle(bad), bad).toMatch(/04fc7816089c/);
  for (const bad of ['6.5.0', '6.8.12']) expect(obstacle(bad), bad).toMatch(/25cd241408a2/);
  expect(obstacle('5.15.200')).toMatch(/6\.1 or later/);
  expect(tierObstacle('zswap', { ...facts, zswap: false })).toMatch(/CONFIG_ZSWAP/);
});

test("Debian's name of a kernel is not taken for its version", () => {
  const debian = '#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)';
  expect(sourceRelease('6.1.0-57-amd64', debian)).toBe('6.1.192');
  expect(sourceRelease('6.18.4', '#1 SMP PREEMPT_DYNAMIC')).toBe('6.18.4');
});

test('zram needs its module, and writeback where that can be told', () => {
  expect(tierObstacle('zram', facts)).toBeNull();
  expect(tierObstacle('zram', { ...facts, zramWriteback: false })).toMatch(/CONFIG_ZRAM_WRITEBACK/);
  expect(tierObstacle('zram', { ...facts, zramModule: false })).toMatch(/no module zram/);
});

test('the tier that is set is required, the others are not, and the reason is said', () => {
  const bad = { ...facts, release: '6.8.0' };
  expect(tiers('zram', bad)).toEqual([
    expect.objectContaining({ id: 'tier zswap', level: 'optional', ok: false }),
    expect.objectContaining({ id: 'tier zram', level: 'required', ok: true }),
  ]);
  const [zswap] = tiers('zswap', bad);
  expect(zswap).toMatchObject({ level: 'required', ok: false, found: expect.stringContaining('6.8.0') });
  expect(() => requireHost(tiers('zswap', bad))).toThrow(
    expect.objectContaining({ code: 'AZ_ZSWAP_MISSING' }),
  );
  expect(() => requireHost(tiers('direct', bad))).not.toThrow();
});
