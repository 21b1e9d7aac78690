import { cpus, release, totalmem } from 'node:os';
import { version } from '../paths.js';
import { firstDifference, type RunRecord } from './record.js';
import { mean, quantile, type Quantiles, quantiles, type Spread, spread, timeAverage } from './stats.js';
import type { Status, SystemName } from './system.js';

/** One system over all its runs. Ratios compare each run with the run of `none` that had its number. */
export interface SystemResult {
  system: SystemName;
  runs: number;
  /** Time average of owned without ÷ of owned + pool with the system; then base added; then everything it costs. */
  reductionTemplateFree: Spread;
  reductionTemplateCharged: Spread;
  reductionAllIn: Spread;
  /** The first of them at the instants at which waits ended. */
  reductionAtWaitEnd: Spread;
  peakReduction: Spread;
  wallMs: Spread;
  slowdownWall: Spread;
  /** Over the tool calls of all runs; `toolSlowdown` is quantile over quantile. */
  toolMs: Quantiles;
  toolSlowdown: Quantiles;
  /** Bytes; means are time averages. */
  memory: Record<(typeof MEMORY)[number], Spread>;
  /** Of an average run. */
  faults: { demand: number; prefetched: number; wasted: number };
  /** Pages by encoding when most pages were out, in the last run. */
  encodings: Status['pager']['encodings'] | null;
  resultsIdentical: boolean;
}

export interface BenchResult {
  schema: 'agentzip.bench/1';
  host: { kernel: string; cpus: number; cpu: string; memoryBytes: number; node: string; agentzip: string };
  workload: string;
  sandboxes: number;
  turns: number;
  seed: number;
  systems: SystemResult[];
}

const MEMORY = [
  'ownedMean',
  'poolMean',
  'baseMean',
  'overheadMean',
  'swapCacheMean',
  'waitEndMean',
  'peak',
] as const;
type MemoryFigures = Record<(typeof MEMORY)[number], number>;

export interface Workload {
  name: string;
  sandboxes: number;
  turns: number;
  seed: number;
}

/** `runs` holds every system's runs in order; without a run of `none` a system is compared with itself. */
export function summarize(workload: Workload, runs: readonly RunRecord[]): BenchResult {
  const names = [...new Set(runs.map((run) => run.system))];
  const baseline = names.includes('none') ? 'none' : names[0];
  const of = (name: SystemName): RunRecord[] => runs.filter((run) => run.system === name);
  const { name, sandboxes, turns, seed } = workload;
  return {
    schema: 'agentzip.bench/1',
    host: {
      kernel: release(),
      cpus: cpus().length,
      cpu: cpus()[0]?.model ?? 'unknown',
      memoryBytes: totalmem(),
      node: process.version,
      agentzip: version,
    },
    workload: name,
    sandboxes,
    turns,
    seed,
    systems: names.map((system) => summarizeSystem(system, of(system), of(baseline))),
  };
}

/** What differs first between any run and the first one; null when all answers are identical. */
export function differenceAmong(runs: readonly RunRecord[]): string | null {
  for (const run of runs.slice(1)) {
    const difference = firstDifference(runs[0], run);
    if (difference !== null) return `${run.system}: ${difference}`;
  }
  return null;
}

function summarizeSystem(
  system: SystemName,
  runs: readonly RunRecord[],
  baseline: readonly RunRecord[],
): SystemResult {
  const figures = runs.map(memoryFigures);
  const before = baseline.map(memoryFigures);
  const ratio = (cost: (f: MemoryFigures) => number, plain: (f: MemoryFigures) => number): Spread =>
    spread(figures.map((f, i) => plain(before[i]) / cost(f)));
  const toolMs = quantiles(toolTimes(runs));
  const toolMsBefore = quantiles(toolTimes(baseline));
  const free = (f: MemoryFigures): number => f.ownedMean + f.poolMean;
  const charged = (f: MemoryFigures): number => free(f) + f.baseMean;
  const accounts = runs.flatMap((run) => run.accounts);
  const perRun = (pick: (account: (typeof accounts)[number]) => number): number =>
    Math.round(accounts.reduce((sum, account) => sum + pick(account), 0) / runs.length);
  return {
    system,
    runs: runs.length,
    reductionTemplateFree: ratio(free, (f) => f.ownedMean),
    reductionTemplateCharged: ratio(charged, (f) => f.ownedMean),
    reductionAllIn: ratio(
      (f) => charged(f) + f.overheadMean + f.swapCacheMean,
      (f) => f.ownedMean,
    ),
    reductionAtWaitEnd: ratio(
      (f) => f.waitEndMean,
      (f) => f.waitEndMean,
    ),
    peakReduction: ratio(
      (f) => f.peak,
      (f) => f.peak,
    ),
    wallMs: spread(runs.map(wall)),
    slowdownWall: spread(runs.map((run, i) => wall(run) / wall(baseline[i]))),
    toolMs,
    toolSlowdown: {
      p50: toolMs.p50 / toolMsBefore.p50,
      p95: toolMs.p95 / toolMsBefore.p95,
      p99: toolMs.p99 / toolMsBefore.p99,
    },
    memory: Object.fromEntries(
      MEMORY.map((name) => [name, spread(figures.map((f) => f[name]))]),
    ) as SystemResult['memory'],
    faults: {
      demand: perRun((account) => account.demandFaults),
      prefetched: perRun((account) => account.prefetchedPages),
      wasted: perRun((account) => account.wastedPages),
    },
    encodings: runs.at(-1)?.fullest?.pager.encodings ?? null,
    resultsIdentical: runs.every((run) => firstDifference(baseline[0], run) === null),
  };
}

const wall = (run: RunRecord): number => run.to - run.from;

const toolTimes = (runs: readonly RunRecord[]): number[] =>
  runs.flatMap((run) => run.calls.map((call) => call.ms));

function memoryFigures(run: RunRecord): MemoryFigures {
  const at = run.samples.map((sample) => sample.at);
  const average = (pick: (sample: RunRecord['samples'][number]) => number): number =>
    timeAverage(at, run.samples.map(pick), run.from, run.to);
  return {
    ownedMean: average((s) => s.owned),
    poolMean: average((s) => s.pool),
    baseMean: average((s) => s.base),
    overheadMean: average((s) => s.overhead),
    swapCacheMean: average((s) => s.swapCache),
    waitEndMean: mean(run.waits.map((wait) => wait.owned + wait.pool)),
    peak: quantile(
      run.samples.map((s) => s.owned + s.pool),
      1,
    ),
  };
}
