import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { prepareGuest, runInGuest } from './support/vm.js';

const MIB = 1;
const FRONT_END = 'ublk';
/** A guest without KVM, on a busy host. */
const GUEST_MS = 400_000;

// The kernels for clouds have no zswap.
const guest = prepareGuest('linux-image-6.12-amd64');

test.skipIf(guest === null)(
  "zswap of Debian's 6.12 holds what goes out, and it comes down to the store",
  { timeout: GUEST_MS + 10_000 },
  async () => {
    const fixture = `${process.execPath} ${packageRoot}/test/fixtures/zswap-window.mjs`;
    const script = `mount -t debugfs debug /sys/kernel/debug; ${fixture} '${JSON.stringify({ frontEnd: FRONT_END, mib: MIB })}'`;
    const { lines, status } = await runInGuest(guest!, script, { timeoutMs: GUEST_MS });
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
