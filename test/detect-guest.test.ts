import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { KERNELS } from './support/kernels.js';
import { prepareGuest, runInGuest } from './support/vm.js';

const LIMIT_MS = 280_000;

/** Before the tracepoints of sockets, and with trampolines. */
const guest = prepareGuest(KERNELS['6.1']);

test.skipIf(guest === null)(
  'a kernel without the tracepoints of sockets has trampolines stand in for them',
  { timeout: LIMIT_MS + 20_000 },
  async () => {
    const fixture = `${packageRoot}/test/fixtures/detect-guest.mjs`;
    const script = `/bin/busybox ip link set lo up; ${process.execPath} ${fixture}`;
    const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: LIMIT_MS, cpus: 2 });
    expect(status, lines.join('\n')).toBe(0);
    const found = JSON.parse(lines.find((line) => line.startsWith('{"attached"')) ?? '{}');
    expect(found.warnings).toEqual([]);
    expect(found.attached).toEqual(
      expect.arrayContaining(['socket_sent_fexit', 'socket_arrived_fentry', 'socket_read_fentry']),
    );
    expect(found.attached).not.toContain('socket_sent');
    // No controller is enabled below the root there.
    expect(found.entered).toEqual({ version: 2, told: ['entered', 'exec', 'exit'] });
    // A guest without KVM is slow: that it works is what counts here, not how fast.
    expect(found.precision).toBeGreaterThan(0.8);
    expect(found.recall).toBeGreaterThan(0.5);
    expect(found.firstTokenMs).toMatchObject({ missed: 0 });
    expect(found.firstTokenMs.count).toBeGreaterThan(0);
  },
);
