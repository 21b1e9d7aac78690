import { describe, expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { KERNELS, type KernelName } from './support/kernels.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';

const MIB = 1;
/** A guest without KVM, on a busy host. */
const GUEST_MS = 600_000;

/** The kernels for clouds have no zswap. `long`: also where zswap writes back all that it holds, by its limit. */
const RUNS: readonly { kernel: KernelName; frontEnd: string; long: boolean }[] = [
  { kernel: '6.12', frontEnd: 'ublk', long: false },
  { kernel: '6.1', frontEnd: 'nbd', long: true },
];

const runs = RUNS.filter(({ long }) => !long || LONG);
describe.each(runs)("zswap of Debian's $kernel", ({ kernel, frontEnd }) => {
  const guest = prepareGuest(KERNELS[kernel]);

  test.skipIf(guest === null)(
    'holds what goes out, and it comes down to the store',
    { timeout: GUEST_MS + 10_000 },
    async () => {
      const fixture = `${process.execPath} ${packageRoot}/test/fixtures/zswap-window.mjs`;
      const script = `mount -t debugfs debug /sys/kernel/debug; ${fixture} '${JSON.stringify({ frontEnd, mib: MIB })}'`;
      const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: GUEST_MS });
      expect(status, lines.join('\n')).toBe(0);
      const found = JSON.parse(lines.find((line) => line.startsWith('{"product"')) ?? '{}');
      expect(found.down).toBeGreaterThan(found.pages * 0.6);
      // Where zswap wrote them itself it says so.
      if (kernel === '6.1') expect(found.writtenBack).toBeGreaterThan(found.pages * 0.6);
      // One of two pages that are alike has the other as its base.
      expect(found.encodings.sparse + found.encodings.delta).toBeGreaterThan(found.pages * 0.3);
      // memory.reclaim goes the same way; a wait that ends soon asks the pager for little and writes nothing.
      expect(found.cgroup.reclaimed).toBeGreaterThan(0);
      expect(found.short.reads).toBeLessThan(found.pages * 0.4);
    },
  );
});
