import { cpus, release, totalmem } from 'node:os';
import { AgentZipError } from '../errors.js';
import { version } from '../paths.js';
import { summarizeBystanders } from './bystanders.js';
import { DEFINITIONS } from './definitions.js';
import { firstDifference, type RunRecord } from './record.js';
import { type BenchResult, MEMORY, type SystemResult, type Timeline } from './result.js';
import { mean, quantile, quantiles, type Spread, spread, timeAverage } from './stats.js';
import type { SystemName } from './system.js';
import { SYSTEMS } from './systems/table.js';
import type { Plan } from './workload.js';

type MemoryFigures = Record<(typeof MEMORY)[number], number>;

/** What was to be run. */
export interface Task {
  workload: string;
  sandboxes: number;
  turns: number;
  seed: number;
  timeScale: number;
  command: string;
  plan: Plan;
  deviations: readonly string[];
  /** Found before the first run. */
  disturbances: readonly string[];
}

/** `runs` holds every system's runs in order; without a run of `none` a system is compared with itself. */
export function summarize(task: Task, runs: readonly RunRecord[]): BenchResult {
  const names = [...new Set(runs.map((run) => run.system))];
  const baseline = names.includes('none') ? 'none' : names[0];
  const of = (name: SystemName): RunRecord[] => runs.filter((run) => run.system === name);
  const { workload, sandboxes, turns, seed, timeScale, command } = task;
  const { trajectories } = task.plan;
  const bystanders = new Set(trajectories.filter((of) => of.bystander).map(({ sandbox }) => sandbox));
  const agentsOf = (run: RunRecord): RunRecord => ({
    ...run,
    calls: run.calls.filter(({ sandbox }) => !bystanders.has(sandbox)),
  });
  return {
    schema: 'agentzip.bench/1',
    host: hostFacts(),
    startedAt: new Date(runs[0].from).toISOString(),
    command,
    workload,
    sandboxes,
    turns,
    seed,
    timeScale,
    runs: of(baseline).length,
    plan: summarizePlan(task.plan),
    definitions: DEFINITIONS,
    deviations: [...task.deviations],
    disturbances: [...task.disturbances, ...names.flatMap((name) => disturbancesOf(name, of(name)))],
    systems: names.map((system) => ({
      ...summarizeSystem(system, of(system).map(agentsOf), of(baseline).map(agentsOf)),
      bystanders: summarizeBystanders(bystanders, of(system), of(baseline)),
    })),
  };
}

export const hostFacts = (): BenchResult['host'] => ({
  kernel: release(),
  cpus: cpus().length,
  cpu: cpus()[0]?.model ?? 'unknown',
  memoryBytes: totalmem(),
  node: process.version,
  agentzip: version,
});

function summarizePlan({ templates, trajectories }: Plan): BenchResult['plan'] {
  const turns = trajectories.flatMap((trajectory) => trajectory.turns);
  const agents = trajectories.filter((trajectory) => !trajectory.bystander);
  const waits = agents.flatMap((agent) => agent.turns.map((turn) => turn.firstTokenMs));
  return {
    templates: templates.length,
    calls: turns.reduce((sum, turn) => sum + turn.calls.length, 0),
    waitsMs: { p50: quantile(waits, 0.5), p95: quantile(waits, 0.95) },
  };
}

const disturbancesOf = (name: SystemName, runs: readonly RunRecord[]): string[] =>
  runs.flatMap((run, i) => run.disturbances.map((text) => `${name}, run ${i + 1}: ${text}`));

/** What differs first between any run and the first one; null when all answers are identical. */
function differenceAmong(runs: readonly RunRecord[]): string | null {
  for (const run of runs.slice(1)) {
    const difference = firstDifference(runs[0], run);
    if (difference !== null) return `${run.system}: ${difference}`;
  }
  return null;
}

/** AZ_RESULTS_DIFFER unless all answers of all runs are identical. */
export function requireIdentical({ seed }: Pick<Task, 'seed'>, runs: readonly RunRecord[]): void {
  const difference = differenceAmong(runs);
  if (difference !== null) throw new AgentZipError('AZ_RESULTS_DIFFER', { what: difference, seed });
}

function summarizeSystem(
  system: SystemName,
  runs: readonly RunRecord[],
  baseline: readonly RunRecord[],
): Omit<SystemResult, 'bystanders'> {
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
  const cpuOf = (of: keyof RunRecord['cpu']): Spread => spread(runs.map((run) => run.cpu[of]));
  return {
    system,
    description: SYSTEMS[system].description,
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
    toolLatencyMs: Array.from({ length: 101 }, (_, percent) => quantile(toolTimes(runs), percent / 100)),
    tools: byTool(runs),
    memory: Object.fromEntries(
      MEMORY.map((name) => [name, spread(figures.map((f) => f[name]))]),
    ) as SystemResult['memory'],
    cpuSeconds: {
      tools: cpuOf('tools'),
      controller: cpuOf('controller'),
      pager: cpuOf('pager'),
      kernel: cpuOf('kernel'),
    },
    busyShare: spread(runs.map((run) => run.busyShare)),
    timeline: timelineOf(runs[0]),
    faults: {
      demand: perRun((account) => account.demandFaults),
      prefetched: perRun((account) => account.prefetchedPages),
      wasted: perRun((account) => account.wastedPages),
    },
    encodings: runs.at(-1)?.fullest?.pager.encodings ?? null,
    resultsIdentical: runs.every((run) => firstDifference(baseline[0], run) === null),
    notes: [...new Set(runs.flatMap((run) => run.notes))],
  };
}

const wall = (run: RunRecord): number => run.to - run.from;

const toolTimes = (runs: readonly RunRecord[]): number[] =>
  runs.flatMap((run) => run.calls.map((call) => call.ms));

function byTool(runs: readonly RunRecord[]): SystemResult['tools'] {
  const times = new Map<string, number[]>();
  for (const { tool, ms } of runs.flatMap((run) => run.calls))
    times.set(tool, [...(times.get(tool) ?? []), ms]);
  const rows = [...times].sort(([a], [b]) => a.localeCompare(b, 'en'));
  return Object.fromEntries(
    rows.map(([tool, ms]) => [tool, { calls: ms.length, p50: quantile(ms, 0.5), p95: quantile(ms, 0.95) }]),
  );
}

function timelineOf({ samples, from }: RunRecord): Timeline {
  const column = (of: keyof RunRecord['samples'][number]): number[] => samples.map((sample) => sample[of]);
  return {
    seconds: samples.map(({ at }) => Math.max(0, at - from) / 1000),
    owned: column('owned'),
    pool: column('pool'),
    base: column('base'),
    overhead: column('overhead'),
    swapCache: column('swapCache'),
  };
}

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
