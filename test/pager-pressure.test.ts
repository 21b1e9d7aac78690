import { describe, expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { KERNELS, type KernelName } from './support/kernels.js';
import { testRandom } from './support/seed.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';

/** LONG: as long as the aim says. */
const SECONDS = LONG ? 120 : 25;
const MEMORY_MIB = 512;
const OVER_MIB = 100;
/** To start, to fill memory and to page all of it in again in a guest without KVM, on a busy host. */
const MARGIN_MS = 240_000;
/** The aim; the short form only tells a pager that answers from one that waits for memory. */
const P99_MS = LONG ? 100 : 500;

/** Not over fuse-loop, which can hang: see docs/operating.md, "When the machine runs out of memory". */
const RUNS: readonly { kernel: KernelName; frontEnd: string; p99Ms: number }[] = [
  { kernel: '6.12 for clouds', frontEnd: 'ublk', p99Ms: P99_MS },
  // A worker of the kernel is between, and no aim is set for it.
  { kernel: '6.1', frontEnd: 'nbd', p99Ms: 500 },
];

describe.each(LONG ? RUNS : RUNS.slice(0, 1))(
  "over $frontEnd of Debian's $kernel",
  ({ kernel, frontEnd, p99Ms }) => {
    const guest = prepareGuest(KERNELS[kernel]);

    test.skipIf(guest === null)(
      'a machine whose memory is too small by far goes on, and the pager answers in time',
      { timeout: 1000 * SECONDS + MARGIN_MS + 10_000 },
      async () => {
        const seed = testRandom('pager-pressure').below(2 ** 30);
        const options = JSON.stringify({ frontEnd, seed, overMib: OVER_MIB, seconds: SECONDS });
        const script = `${process.execPath} ${packageRoot}/test/fixtures/pager-pressure.mjs '${options}'`;
        const limits = { memoryMiB: MEMORY_MIB, timeoutMs: 1000 * SECONDS + MARGIN_MS };
        const { lines, status } = await runInGuest(guest as string, script, limits);
        const said = lines.join('\n');
        expect(status, said).toBe(0);
        expect(said).not.toMatch(/blocked for more than|page allocation failure|Out of memory/);
        const result = JSON.parse(lines.find((line) => line.startsWith('{"seed"')) ?? '{}');
        expect(result).toMatchObject({
          corruptPages: 0,
          refusedWrites: 0,
          takeovers: 0,
          hogged: { wrong: 0 },
        });
        expect(result.hogged.read).toBeGreaterThan(1000);
        expect(result.reads).toBeGreaterThan(SECONDS * 50);
        expect(result.latency.reads).toBeGreaterThan(SECONDS * 4);
        expect(result.latency.p99).toBeLessThan(p99Ms);
      },
    );
  },
);
