import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { testRandom } from './support/seed.js';
import { prepareGuest, runInGuest, type GuestRun } from './support/vm.js';

const PARTS = ['geometry', 'ordering', 'flush', 'emptying', 'corruption', 'torture'];
const MARGIN_MS = 240_000;

/**
 * One line a front end. `guest`: this kernel need not have it, Debian's 6.12 in a guest does; a guest without KVM is slow,
 * so it does less there.
 */
const FRONT_ENDS = [
  { frontEnd: 'fuse-loop', where: 'host', operations: 3000, kills: 2 },
  { frontEnd: 'ublk', where: 'guest', operations: 800, kills: 1 },
  { frontEnd: 'nbd', where: 'guest', operations: 800, kills: 1 },
] as const;

const guest = prepareGuest();

async function conform(where: 'host' | 'guest', options: object): Promise<GuestRun> {
  const program = `${packageRoot}/test/fixtures/conformance.mjs`;
  if (where === 'guest') {
    const script = `${process.execPath} ${program} '${JSON.stringify(options)}'`;
    return runInGuest(guest as string, script, { timeoutMs: MARGIN_MS });
  }
  const words = [program, JSON.stringify(options)];
  const { status, stdout } = spawnSync(process.execPath, words, {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    timeout: MARGIN_MS,
  });
  return { status, lines: stdout.split('\n') };
}

for (const { frontEnd, where, operations, kills } of FRONT_ENDS) {
  test.skipIf(where === 'guest' && guest === null)(
    `${frontEnd} keeps order, empties, refuses what is damaged, and loses nothing when its pager is killed`,
    { timeout: MARGIN_MS + 10_000 },
    async () => {
      const seed = testRandom('front-end-conformance').below(2 ** 30);
      const { lines, status } = await conform(where, { frontEnd, seed, operations, kills });
      const said = lines.join('\n');
      expect(status, said).toBe(0);
      const result = JSON.parse(lines.find((line) => line.startsWith('{"frontEnd"')) ?? '{}');
      expect(result).toMatchObject({ frontEnd, done: PARTS, kills });
      expect(result.checked).toBeGreaterThan(operations);
    },
  );
}
