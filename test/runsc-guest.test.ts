import { describe, expect, test } from 'vitest';
import type { EncodingCounts } from '../src/pager/protocol.js';
import { packageRoot } from '../src/paths.js';
import { KERNELS, type KernelName } from './support/kernels.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';

const MIB = 8;
/** A guest without KVM, on a busy host. */
const GUEST_MS = 400_000;

/** `long`: also where memory.reclaim takes no swappiness. */
const RUNS: readonly { kernel: KernelName; frontEnd: string; long: boolean }[] = [
  { kernel: '6.12 for clouds', frontEnd: 'ublk', long: false },
  { kernel: '6.1', frontEnd: 'nbd', long: true },
];

const runs = RUNS.filter(({ long }) => !long || LONG);
describe.each(runs)("over memory.reclaim of Debian's $kernel", ({ kernel, frontEnd }) => {
  const guest = prepareGuest(KERNELS[kernel]);

  test.skipIf(guest === null)(
    'memory that a sentry and its program share leaves in a wait, shared with nothing, and both find it as it was',
    { timeout: GUEST_MS + 10_000 },
    async () => {
      const options = JSON.stringify({ frontEnd, mib: MIB });
      const script = `${process.execPath} ${packageRoot}/test/fixtures/runsc-window.mjs '${options}'`;
      const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: GUEST_MS });
      expect(status, lines.join('\n')).toBe(0);
      const { out, left, heldBefore, usedSlots, foreignSlots, encodings } = JSON.parse(
        lines.find((line) => line.startsWith('{"runsc"')) ?? '{}',
      );
      expect(out).toBeGreaterThan(0.85 * MIB * 2 ** 20);
      expect(left).toBeLessThan(heldBefore / 2);
      // What lies like another page is the sentry's own: nobody's pages are made smaller by themselves alone.
      const { duplicate, template, delta, sparse, clustered } = encodings as EncodingCounts;
      expect(duplicate + template + delta + sparse + clustered).toBeLessThanOrEqual(usedSlots - foreignSlots);
    },
  );
});
