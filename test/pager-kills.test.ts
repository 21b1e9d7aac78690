import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { prepareGuest, runInGuest } from './support/vm.js';
import { testRandom } from './support/seed.js';

/** AGENTZIP_KILLS=200 is the long run. */
const KILLS = Number(process.env.AGENTZIP_KILLS ?? 10);
/** Memory of each process. */
const MIB = 4;
/** A guest without KVM takes a second and more for a standby to come up. */
const LIMIT_MS = 60_000 + KILLS * 6_000;

const guest = prepareGuest();
if (guest === null && process.env.CI !== undefined) throw new Error('CI must be able to run a test guest');

test.skipIf(guest === null)(
  `no byte is lost when the pager is killed ${KILLS} times at random moments`,
  { timeout: LIMIT_MS + 30_000 },
  async () => {
    const seed = testRandom('pager-kills').below(2 ** 30);
    const options = JSON.stringify({ kills: KILLS, seed, processes: 2, mib: MIB, spreadMs: 400 });
    const script = `${process.execPath} ${packageRoot}/test/fixtures/pager-kills.mjs '${options}'`;
    const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: LIMIT_MS });
    const said = lines.join('\n');
    process.stdout.write(`${said}\n`);
    expect(status, said).toBe(0);
    const result = JSON.parse(lines.find((line) => line.startsWith('{"kills"')) ?? '{}');
    expect(result).toMatchObject({ kills: KILLS, takeovers: KILLS, corruptPages: 0 });
    expect(result.pagesChecked).toBeGreaterThan(2 * MIB * 256);
  },
);
