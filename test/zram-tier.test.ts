import { describe, expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { KERNELS, type KernelName } from './support/kernels.js';
import { testRandom } from './support/seed.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';

const MIB = 4;
const PAGES = 256;
const BYTES = PAGES * 4096;
/** A guest without KVM, on a busy host. */
const GUEST_MS = LONG ? 600_000 : 240_000;

const RUNS: readonly { kernel: KernelName; frontEnd: string }[] = [
  { kernel: '6.12 for clouds', frontEnd: 'ublk' },
  { kernel: '6.1', frontEnd: 'nbd' },
];

// LONG: the tier alone too, with kills of the pager and of it and its standby, on both kernels; else the whole product in a wait.
describe.each(LONG ? RUNS : RUNS.slice(0, 1))("zram of Debian's $kernel", ({ kernel, frontEnd }) => {
  const guest = prepareGuest(KERNELS[kernel]);

  test.skipIf(guest === null)(
    'what it writes back is shared inside its trust domain alone, comes again byte for byte, and leaves nothing behind',
    { timeout: GUEST_MS + 10_000 },
    async () => {
      const seed = testRandom('zram-tier').below(2 ** 30);
      // By turns over both: one boot for all.
      const fixtures = `${process.execPath} ${packageRoot}/test/fixtures`;
      const tier = `${fixtures}/zram-tier.mjs '${JSON.stringify({ frontEnd: 'nbd', seed, mib: MIB })}'`;
      const product = `${fixtures}/zram-window.mjs '${JSON.stringify({ frontEnd, pages: PAGES })}'`;
      const script = LONG ? `${tier} && ${product}` : product;
      const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: GUEST_MS });
      expect(status, lines.join('\n')).toBe(0);
      const said = (start: string) => JSON.parse(lines.find((line) => line.startsWith(start)) ?? '{}');
      if (LONG) {
        const result = said('{"frontEnd"');
        expect(result).toMatchObject({ frontEnd: 'nbd', takeovers: 1, corruptPages: 0, left: [] });
        expect(result.writtenPages).toBeGreaterThan(MIB * 128);
      }
      const found = said('{"product"');
      const { writtenPages, bytes, encodings, foreignSlots, again, freedSlots, corruptPages } = found;
      expect(foreignSlots).toBeLessThan(writtenPages / 20);
      // The twin has all of its pages in common with the one, and a third of them are the template's with some bytes changed.
      expect(encodings.duplicate).toBeGreaterThan(PAGES * 0.7);
      expect(encodings.delta + encodings.sparse).toBeGreaterThan(PAGES * 0.2);
      // Two of one tenant take less than one of another, half of whose pages are like nothing that is its own.
      expect(bytes.one + bytes.twin).toBeLessThan(BYTES / 2);
      expect(bytes.rival).toBeGreaterThan(BYTES * 0.47);
      // zram takes its lowest free blocks first; what it has let go of and not written over is freed.
      expect(again.writtenPages).toBeLessThan(writtenPages - PAGES / 2);
      expect(again.usedSlots).toBeLessThan(again.writtenPages * 1.05);
      expect(freedSlots).toBeGreaterThan(PAGES / 2);
      expect(corruptPages).toBe(0);
    },
  );
});
