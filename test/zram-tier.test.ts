import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { testRandom } from './support/seed.js';
import { prepareGuest, runInGuest } from './support/vm.js';

const MIB = 4;
/** AGENTZIP_VM=long: the tier alone too, with kills of the pager and of it and its standby. Else the whole product in a wait. */
const LONG = process.env.AGENTZIP_VM === 'long';
/** A guest without KVM, on a busy host. */
const GUEST_MS = 240_000;

const guest = prepareGuest();
if (guest === null && process.env.CI !== undefined) throw new Error('CI must be able to run a test guest');

test.skipIf(guest === null)(
  'what zram writes back to the device comes again byte for byte, and nothing is claimed, shared or left behind',
  { timeout: GUEST_MS + 10_000 },
  async () => {
    const seed = testRandom('zram-tier').below(2 ** 30);
    // By turns over both: one boot for all.
    const fixtures = `${process.execPath} ${packageRoot}/test/fixtures`;
    const tier = `${fixtures}/zram-tier.mjs '${JSON.stringify({ frontEnd: 'nbd', seed, mib: MIB })}'`;
    const product = `${fixtures}/zram-window.mjs '${JSON.stringify({ frontEnd: 'ublk', mib: MIB })}'`;
    const script = LONG ? `${tier} && ${product}` : product;
    const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: GUEST_MS });
    expect(status, lines.join('\n')).toBe(0);
    const said = (start: string) => JSON.parse(lines.find((line) => line.startsWith(start)) ?? '{}');
    if (LONG) {
      const result = said('{"frontEnd"');
      expect(result).toMatchObject({ frontEnd: 'nbd', takeovers: 1, corruptPages: 0, left: [] });
      expect(result.writtenPages).toBeGreaterThan(MIB * 128);
    }
    const { written, encodings } = said('{"product"');
    expect(written).toBeGreaterThan(MIB * 200);
    // What is nobody's is like nothing else.
    expect(encodings).toMatchObject({ duplicate: 0, template: 0, delta: 0, sparse: 0, clustered: 0 });
  },
);
