import { expect, test } from 'vitest';
import { quantile } from '../src/bench/stats.js';
import { packageRoot } from '../src/paths.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';
import { testRandom } from './support/seed.js';

/** Of one machine. LONG: 200 over ublk and 50 over fuse-loop, which takes guests without KVM 40 minutes; else as many as fit into the budget. */
const KILLS = LONG ? 50 : 20;
const BUDGET_MS = LONG ? 2_400_000 : 60_000;
/** Each so many-th time the pager hangs, instead of being killed. */
const HANGS = LONG ? 13 : 2;
/** A few kills at least; with a hang between them. */
const LEAST = 2;
/** How long start and end may take in a guest without KVM, on a busy host. */
const MARGIN_MS = 200_000;
/** Guests that run at a time: each takes one processor. */
const AT_ONCE = 2;
/** What a read may take across a kill, 95 of 100 times. Where few are killed, on a host that does other things, it is only said. */
const RECOVERY_P95_MS = 500;
/** The short form is left to one front end; `front-end-conformance` kills the pager of each. */
const FRONT_ENDS = LONG
  ? [
      { frontEnd: 'ublk', machines: 4 },
      { frontEnd: 'fuse-loop', machines: 1 },
    ]
  : [{ frontEnd: 'ublk', machines: 1 }];
/** Memory of the process that checks its pages. */
const MIB = 4;

const guest = prepareGuest();

interface Kills {
  kills: number;
  hung: number;
  pagesChecked: number;
  /** ms that a read of the device took across each kill. */
  recoveries: number[];
}

async function killsIn(folder: string, frontEnd: string, seed: number): Promise<Kills> {
  const options = {
    ...{ frontEnd, kills: KILLS, budgetMs: BUDGET_MS, least: LEAST, hangs: HANGS },
    ...{ seed, processes: 1, mib: MIB, spreadMs: 400, verbose: true },
    ends: LONG ? 'all' : 'drain',
  };
  const script = `${process.execPath} ${packageRoot}/test/fixtures/pager-kills.mjs '${JSON.stringify(options)}'`;
  const { lines, status } = await runInGuest(folder, script, { timeoutMs: BUDGET_MS + MARGIN_MS });
  const said = lines.join('\n');
  expect(status, said).toBe(0);
  const result = JSON.parse(lines.find((line) => line.startsWith('{"kills"')) ?? '{}');
  expect(result).toMatchObject({ takeovers: result.kills + result.hung, corruptPages: 0 });
  expect(result.kills).toBeGreaterThanOrEqual(LONG ? KILLS : LEAST);
  expect(result.hung).toBeGreaterThan(0);
  expect(result.pagesChecked).toBeGreaterThan(MIB * 256);
  return result;
}

for (const { frontEnd, machines } of FRONT_ENDS) {
  test.skipIf(guest === null)(
    `over ${frontEnd} no byte is lost when the pager is killed at random moments, hangs, and is killed while it drains`,
    { timeout: Math.ceil(machines / AT_ONCE) * (BUDGET_MS + MARGIN_MS) + 10_000 },
    async () => {
      const seed = testRandom('pager-kills').below(2 ** 30);
      const results: Kills[] = [];
      for (let first = 0; first < machines; first += AT_ONCE) {
        const seeds = Array.from({ length: Math.min(AT_ONCE, machines - first) }, (_, i) => seed + first + i);
        results.push(...(await Promise.all(seeds.map((of) => killsIn(guest as string, frontEnd, of)))));
      }
      const recoveries = results.flatMap((result) => result.recoveries);
      const sum = (field: 'kills' | 'hung' | 'pagesChecked'): number =>
        results.reduce((total, result) => total + result[field], 0);
      const ms = [0.5, 0.95, 1].map((q) => quantile(recoveries, q));
      process.stdout.write(
        `${frontEnd}, seed ${seed}: ${sum('kills')} kills and ${sum('hung')} hangs, ${sum('pagesChecked')} pages checked; ` +
          `a read across a kill took ${ms.join(' / ')} ms (p50 / p95 / max)\n`,
      );
      expect(recoveries).toHaveLength(sum('kills'));
      if (LONG) expect(ms[1], 'p95 of a read across a kill, ms').toBeLessThan(RECOVERY_P95_MS);
    },
  );
}
