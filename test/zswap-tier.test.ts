import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { prepareGuest, runInGuest } from './support/vm.js';

const MIB = 1;
/** The kernel, and the front end it can have. The kernels for clouds have no zswap. */
const KERNELS = [['linux-image-6.12-amd64', 'ublk']] as const;
/** A guest without KVM, on a busy host. */
const GUEST_MS = 400_000;

test.for(KERNELS)(
  'zswap of %s holds what goes out, and it comes down to the store',
  { timeout: GUEST_MS + 60_000 },
  async ([kernel, frontEnd]) => {
    const guest = prepareGuest(kernel);
    if (guest === null) {
      if (process.env.CI !== undefined) throw new Error('CI must be able to run a test guest');
      return;
    }
    const fixture = `${process.execPath} ${packageRoot}/test/fixtures/zswap-window.mjs`;
    const script = `mount -t debugfs debug /sys/kernel/debug; ${fixture} '${JSON.stringify({ frontEnd, mib: MIB })}'`;
    const { lines, status } = await runInGuest(guest, script, { timeoutMs: GUEST_MS });
    expect(status, lines.join('\n')).toBe(0);
    const found = JSON.parse(lines.find((line) => line.startsWith('{"product"')) ?? '{}');
    expect(found.down).toBeGreaterThan(found.pages * 0.6);
    // One of two pages that are alike has the other as its base.
    expect(found.encodings.sparse + found.encodings.delta).toBeGreaterThan(found.pages * 0.3);
    // memory.reclaim goes the same way; a wait that ends soon asks the pager for little and writes nothing.
    expect(found.cgroup.reclaimed).toBeGreaterThan(0);
    expect(found.short.reads).toBeLessThan(found.pages * 0.2);
  },
);
