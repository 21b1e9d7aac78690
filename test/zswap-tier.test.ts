import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { prepareGuest, runInGuest } from './support/vm.js';

const MIB = 2;
/** AGENTZIP_VM=long: Debian 12's own kernel too, whose zswap works otherwise. */
const LONG = process.env.AGENTZIP_VM === 'long';
/** The kernel, and the front end it can have. The kernels for clouds have no zswap. */
const KERNELS = [
  ['linux-image-6.12-amd64', 'ublk'],
  ...(LONG ? [['linux-image-amd64', 'nbd']] : []),
] as const;
/** A guest without KVM, on a busy host. */
const GUEST_MS = 400_000;

test.for(KERNELS)(
  'zswap of %s holds what goes out, and it comes down to the store as whose it is',
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
    // Where the kernel writes back itself it counts that.
    if (kernel === 'linux-image-amd64') expect(found.writtenBack).toBeGreaterThan(found.pages * 0.6);
    const { delta, sparse, clustered, duplicate } = found.encodings;
    expect(delta + sparse + clustered + duplicate).toBeGreaterThan(found.pages * 0.3);
    expect(found.cgroup.zswappedKiB).toBeGreaterThan(MIB * 1024 * 0.6);
  },
);
