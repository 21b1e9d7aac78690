import { expect, test } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { prepareGuest, runInGuest } from './support/vm.js';
import { testRandom } from './support/seed.js';

/** AGENTZIP_VM=long: all of it, which takes a guest without KVM an hour. Else as many kills as fit into the budget. */
const long = process.env.AGENTZIP_VM === 'long';
const KILLS = long ? 200 : 20;
const BUDGET_MS = long ? 3_600_000 : 30_000;
/** Each so many-th time the data loop hangs, instead of being killed. */
const HANGS = long ? 20 : 2;
/** How long start and end may take in a guest without KVM, on a busy host. */
const MARGIN_MS = 200_000;
/** The short form is left to one front end; `front-end-conformance` kills the pager of each. */
const FRONT_ENDS = long ? (['ublk', 'fuse-loop'] as const) : (['ublk'] as const);
/** Memory of the process that checks its pages. */
const MIB = 4;
/** A few kills at least. */
const LEAST = 2;

const guest = prepareGuest();
if (guest === null && process.env.CI !== undefined) throw new Error('CI must be able to run a test guest');

test.skipIf(guest === null).each(FRONT_ENDS)(
  'over %s no byte is lost when the pager is killed at random moments, hangs, and is killed while it drains',
  { timeout: BUDGET_MS + MARGIN_MS + 10_000 },
  async (frontEnd) => {
    const seed = testRandom('pager-kills').below(2 ** 30);
    const load = { seed, processes: 1, mib: MIB, spreadMs: 400 };
    const ends = long ? 'all' : 'drain';
    const options = JSON.stringify({
      frontEnd,
      kills: KILLS,
      budgetMs: BUDGET_MS,
      least: LEAST,
      ...load,
      ends,
      hangs: HANGS,
      verbose: true,
    });
    const script = `${process.execPath} ${packageRoot}/test/fixtures/pager-kills.mjs '${options}'`;
    const { lines, status } = await runInGuest(guest as string, script, { timeoutMs: BUDGET_MS + MARGIN_MS });
    const said = lines.join('\n');
    expect(status, said).toBe(0);
    const result = JSON.parse(lines.find((line) => line.startsWith('{"kills"')) ?? '{}');
    expect(result).toMatchObject({ takeovers: result.kills + result.hung, corruptPages: 0 });
    expect(result.kills).toBeGreaterThanOrEqual(LEAST);
    expect(result.hung).toBeGreaterThan(0);
    expect(result.pagesChecked).toBeGreaterThan(MIB * 256);
  },
);
