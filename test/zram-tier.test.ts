import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { testRandom } from './support/seed.js';
import { prepareGuest, runInGuest } from './support/vm.js';

const MIB = 4;
/** A guest without KVM, on a busy host. */
const GUEST_MS = 240_000;

const guest = prepareGuest();
if (guest === null && process.env.CI !== undefined) throw new Error('CI must be able to run a test guest');

test.skipIf(guest === null)(
  'what zram writes back to the device comes again byte for byte, and nothing is claimed, shared or left behind',
  { timeout: GUEST_MS + 10_000 },
  async () => {
    const seed = testRandom('zram-tier').below(2 ** 30);
    const options = JSON.stringify({ frontEnd: 'ublk', seed, mib: MIB });
    const script = `${process.execPath} ${packageRoot}/test/fixtures/zram-tier.mjs '${options}'`;
    const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: GUEST_MS });
    expect(status, lines.join('\n')).toBe(0);
    const result = JSON.parse(lines.find((line) => line.startsWith('{"frontEnd"')) ?? '{}');
    expect(result).toMatchObject({ frontEnd: 'ublk', takeovers: 1, corruptPages: 0, left: [] });
    expect(result.writtenPages).toBeGreaterThan(MIB * 128);
  },
);
