import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { KERNELS, type KernelName } from './support/kernels.js';
import { testRandom } from './support/seed.js';
import { LONG, prepareGuest, runInGuest, type GuestRun } from './support/vm.js';

const PARTS = ['geometry', 'ordering', 'flush', 'emptying', 'corruption', 'torture'];
const MARGIN_MS = 240_000;

/**
 * One line a front end. This host's kernel need not have all of them; a guest without KVM is slow, so it does less there.
 * LONG: also on the kernel that has no better one than NBD.
 */
const RUNS: readonly { frontEnd: string; kernel: KernelName | null; operations: number; kills: number }[] = [
  { frontEnd: 'fuse-loop', kernel: null, operations: 3000, kills: 2 },
  { frontEnd: 'ublk', kernel: '6.12 for clouds', operations: 800, kills: 1 },
  { frontEnd: 'nbd', kernel: '6.12 for clouds', operations: 800, kills: 1 },
  ...(LONG ? ([{ frontEnd: 'nbd', kernel: '6.1', operations: 800, kills: 1 }] as const) : []),
];

async function conform(guest: string | null, options: object): Promise<GuestRun> {
  const program = `${packageRoot}/test/fixtures/conformance.mjs`;
  if (guest !== null) {
    const script = `${process.execPath} ${program} '${JSON.stringify(options)}'`;
    return runInGuest(guest, script, { timeoutMs: MARGIN_MS });
  }
  const words = [program, JSON.stringify(options)];
  const { status, stdout } = spawnSync(process.execPath, words, {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    timeout: MARGIN_MS,
  });
  return { status, lines: stdout.split('\n') };
}

for (const { frontEnd, kernel, operations, kills } of RUNS) {
  const guest = kernel === null ? null : prepareGuest(KERNELS[kernel]);
  test.skipIf(kernel !== null && guest === null)(
    `${frontEnd}${kernel === null ? '' : ` of Debian's ${kernel}`} keeps order, empties, refuses what is damaged, and loses nothing when its pager is killed`,
    { timeout: MARGIN_MS + 10_000 },
    async () => {
      const seed = testRandom('front-end-conformance').below(2 ** 30);
      const { lines, status } = await conform(guest, { frontEnd, seed, operations, kills });
      const said = lines.join('\n');
      expect(status, said).toBe(0);
      const result = JSON.parse(lines.find((line) => line.startsWith('{"frontEnd"')) ?? '{}');
      expect(result).toMatchObject({ frontEnd, done: PARTS, kills });
      expect(result.checked).toBeGreaterThan(operations);
    },
  );
}
