import { expect, test } from 'vitest';
import { Forecast } from '../src/controller/windows/forecast.js';
import { hashOf, PrefetchModel, usesOf } from '../src/controller/prefetch/prefetch-model.js';
import { PrefetchScore, noCounts } from '../src/controller/prefetch/prefetch-score.js';
import { RecentTools } from '../src/controller/prefetch/recent-tools.js';
import { Mark, Usage, type Outcome } from '../src/controller/prefetch/usage.js';
import type { Look } from '../src/memory/look.js';
import { wordTable } from '../src/memory/page-table.js';
import { parseVmas } from '../src/memory/vmas.js';

const PAGES = 64;
const FIRST = 0x1000;
const SITUATION = { role: hashOf('r'), tool: hashOf('read'), previous: 0, toolPhases: 0 };

/** A process with so many pages of heap, all of them out. */
function look(): Look {
  const [start, end] = [FIRST, FIRST + PAGES].map((page) => (page * 4096).toString(16));
  const slots = wordTable();
  for (let i = 0; i < PAGES; i++) slots.set(FIRST + i, i + 1);
  return {
    process: { pid: 1, startTime: 1 },
    vmas: parseVmas(`${start}-${end} rw-p 00000000 00:00 0          [heap]\n`),
    ...{ runs: [], owned: [], ownedPages: 0, slots, swappedPages: PAGES },
  };
}

/** A phase that uses the first `used` pages; `putBack` marks what is back before. */
function phase(model: PrefetchModel, usage: Usage, used: number, putBack: (usage: Usage) => void = () => {}) {
  const forecast = Forecast.of(look(), null, usage);
  forecast.settle(SITUATION, model);
  putBack(usage);
  for (let i = 0; i < used; i++) if (usage.mark(FIRST + i) !== Mark.MAPPED) usage.used(FIRST + i);
  const outcome = (page: number): Outcome =>
    page < FIRST + used || (usage.mark(page) & Mark.MAPPED) !== 0 ? 'present' : 'out';
  return { forecast, counts: forecast.learn(model, usage, outcome) };
}

test('pages that tools waited for are expected next time; those around them are found', () => {
  const [model, usage] = [new PrefetchModel(), new Usage()];
  for (let i = 0; i < 6; i++) expect(phase(model, usage, 16).counts.demand).toBe(16);
  const { forecast } = phase(model, usage, 16);
  const likely = forecast.candidates(0.5);
  expect(likely.map(({ page }) => page - FIRST)).toEqual([...Array(16).keys()]);
  expect(forecast.near(FIRST + 18, 4, 0.5)).toEqual([FIRST + 14, FIRST + 15]);
});

test('what was made ready counts as used or wasted; a sample stands for those that were mapped', () => {
  const { counts } = phase(new PrefetchModel(), new Usage(), 16, (usage) => {
    for (const i of [0, 1, 20]) usage.putBack(FIRST + i, Mark.READY);
    for (const i of [2, 21]) usage.putBack(FIRST + i, Mark.READY | Mark.SAMPLE);
    for (const i of [3, 22]) usage.putBack(FIRST + i, Mark.MAPPED);
    for (const i of [4, 23, 24]) usage.putBack(FIRST + i, Mark.READY | Mark.AHEAD);
  });
  expect(counts).toMatchObject({ used: 2 + 8 + 1, wasted: 1 + 8 + 2, ahead: 3, aheadUsed: 1 });
  expect(counts.demand).toBe(16 - 5);
});

test('a page that was mapped and not written is believed to be used, and teaches nothing', () => {
  const [taught, usage] = [new PrefetchModel(), new Usage()];
  phase(taught, usage, 0, () => {
    for (let i = 0; i < PAGES; i++) usage.putBack(FIRST + i, Mark.MAPPED);
  });
  expect(taught.table.columns.phases.every((stamp) => stamp === 0)).toBe(true);
  expect(usesOf(usage.history(FIRST)) & 1).toBe(1);
});

test('a score tells accuracy and coverage of late, and how much too hopeful the bets were', () => {
  const score = new PrefetchScore();
  expect(PrefetchScore.status([score])).toMatchObject({ phases: 0, accuracy: null, coverage: null });
  score.note({ ...noCounts(), used: 300, wasted: 100, demand: 100, expectedWaste: 50 });
  expect(PrefetchScore.status([score])).toMatchObject({
    ...{ phases: 1, demandFaults: 100, usedPages: 300, wastedPages: 100 },
    ...{ accuracy: 0.75, coverage: 0.75 },
  });
  expect(score.optimism).toBeCloseTo(2);
  for (let i = 0; i < 100; i++) score.note({ ...noCounts(), used: 300, wasted: 10, expectedWaste: 50 });
  expect(score.optimism).toBe(1);
});

test('running ahead is given up where it is of no use, and tried again later', () => {
  const score = new PrefetchScore();
  expect(score.aheadAccuracy).toBe(1);
  score.note({ ...noCounts(), ahead: 1000, aheadUsed: 100 });
  expect(score.aheadAccuracy).toBeCloseTo(0.1);
  for (let i = 0; i < 40; i++) score.note(noCounts());
  expect(score.aheadAccuracy).toBe(1);
});

test('tools go by the name that the host gives, else by the programs that were started', () => {
  const tools = new RecentTools();
  expect([tools.next, tools.previous]).toEqual(['', '']);
  for (const tool of ['read', 'read', 'test']) tools.name(tool);
  tools.started('git');
  expect(tools.next).toBe('read');
  tools.endPhase();
  tools.started('pytest');
  tools.endPhase();
  tools.name('read');
  expect([tools.next, tools.previous]).toEqual(['read', 'pytest']);
  tools.endPhase();
  expect(tools.phasesOf('read')).toBe(0b101);
  expect(tools.phasesOf('test')).toBe(0b100);
  expect(tools.phasesOf('git')).toBe(0);
});
