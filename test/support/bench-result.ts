import { type BenchResult, MEMORY, type SystemResult, type Timeline } from '../../src/bench/result.js';
import { quantile, quantiles, type Spread, spread, timeAverage } from '../../src/bench/stats.js';
import { Random } from './seed.js';

const MIB = 2 ** 20;
const RUNS = 3;
const SANDBOXES = 16;
const TURNS = 6;
/** Owned memory of a sandbox after a turn, MiB. */
const GROWTH = 7;
const STEP_SECONDS = 0.5;

/** What a system does, from which its made-up figures follow. */
interface Model {
  system: string;
  description: string;
  /** Share of a waiting sandbox's memory that goes out, how small it gets, and how much longer tools take. */
  out: number;
  stored: number;
  toolFactor: number;
  base: number;
  overhead: number;
  cpu: [controller: number, pager: number, kernel: number];
  encodings?: Record<string, number>;
  notes?: string[];
}

const ZIP = { base: 24 * MIB, overhead: 96 * MIB, cpu: [6, 14, 9] as [number, number, number] };
const MODELS: Model[] = [
  { ...model('none', 'No memory system.', 0, 1, 1), cpu: [0, 0, 1] },
  {
    ...model('zram', 'Kernel swap on zram with zstd, paged out in the same windows.', 0.9, 0.36, 1.5),
    cpu: [2, 0, 16],
  },
  {
    ...model('zswap', 'Kernel swap behind zswap, under a memory limit.', 0.5, 0.42, 2.2),
    ...{
      cpu: [0, 0, 21],
      notes: ['The limit was set to half of what none takes; it is no policy of windows.'],
    },
  },
  { ...model('ksm', 'Kernel samepage merging of all sandboxes.', 0.3, 0.25, 1.08), cpu: [0, 0, 34] },
  {
    ...model('agentzip', 'AgentZip as it is.', 0.95, 0.055, 1.35),
    ...ZIP,
    encodings: mix(9, 24, 31, 29, 5, 2),
  },
  {
    ...model('agentzip-no-prefetch', 'Nothing is put back ahead of use.', 0.95, 0.052, 3.4),
    ...{ ...ZIP, encodings: mix(9, 24, 31, 29, 5, 2) },
  },
  {
    ...model('agentzip-no-delta', 'No deltas: zstd or raw.', 0.95, 0.2, 1.3),
    ...{ ...ZIP, base: 2 * MIB, encodings: mix(9, 24, 31, 0, 31, 5) },
  },
  {
    ...model('agentzip-no-siblings', 'No sharing between sandboxes.', 0.95, 0.11, 1.32),
    ...{ ...ZIP, encodings: mix(9, 0, 31, 38, 17, 5) },
  },
  {
    ...model('agentzip-cold-only', 'Only pages that were cold go out.', 0.4, 0.09, 1.2),
    ...{ ...ZIP, encodings: mix(22, 11, 44, 17, 5, 1) },
  },
  {
    ...model('agentzip-any-time', 'Compresses outside waits too.', 0.97, 0.05, 2.7),
    ...{ ...ZIP, encodings: mix(9, 24, 31, 29, 5, 2), notes: ['Pages of running tools went out.'] },
  },
];

function model(system: string, description: string, out: number, stored: number, toolFactor: number): Model {
  return { system, description, out, stored, toolFactor, base: 0, overhead: 0, cpu: [0, 0, 0] };
}

function mix(same: number, duplicate: number, template: number, delta: number, zstd: number, raw: number) {
  return {
    same,
    duplicate,
    template,
    sparse: delta / 2,
    delta: delta / 2,
    dictionary: zstd / 2,
    zstd: zstd / 2,
    raw,
    staged: 1,
  };
}

interface Run {
  timeline: Timeline;
  wallMs: number;
  latencies: number[];
  calls: { tool: string; ms: number }[];
  waitEnd: number[];
}

/** A result as a bench of a 16-way rollout may write it, made up from `seed`; nothing in it was measured. */
export function exampleResult(seed: number): BenchResult {
  const runs = MODELS.map((m) => Array.from({ length: RUNS }, (_, run) => play(m, seed, run)));
  return JSON.parse(
    JSON.stringify({
      schema: 'agentzip.bench/1',
      host: {
        ...{ kernel: '6.18.5-example', cpus: 2, cpu: 'Example Processor 2000 @ 2.60GHz' },
        ...{ memoryBytes: 24 * 2 ** 30 - 4096, node: 'v20.20.2', agentzip: '0.1.0' },
      },
      ...{ workload: 'rollout-16', sandboxes: SANDBOXES, turns: TURNS, seed, timeScale: 0.25, runs: RUNS },
      command: `agentzip bench --workload rollout-16 --systems all --runs 3 --seed ${seed} --json results.json`,
      startedAt: '2026-03-04T05:06:07.089Z',
      plan: { templates: 10, calls: SANDBOXES * TURNS * 2, waitsMs: { p50: 2213.4, p95: 9127.6 } },
      definitions: {
        owned: 'Pages of a sandbox that are present, anonymous and in no other process.',
        pool: "Memory of the store and of the kernel's compressed pools.",
        reduction: 'Time average of owned memory without, divided by that of owned and pool with the system.',
      },
      deviations: ['Waits are a quarter as long as the traces they are drawn from.'],
      disturbances: [],
      systems: MODELS.map((m, i) => summary(m, runs[i], runs[0], seed)),
    }),
  );
}

/** One run: each sandbox waits, calls two tools, grows, and waits again. */
function play(m: Model, seed: number, run: number): Run {
  const waits = new Random(seed, 'waits'); // the same for every system and run
  const random = new Random(seed, m.system, run);
  const tools = new Random(seed, 'tools');
  const calls: Run['calls'] = [];
  const waitEnd: number[] = [];
  const spans = Array.from({ length: SANDBOXES }, () => {
    let at = waits.next() * 2;
    return Array.from({ length: TURNS }, (_, turn) => {
      const wait: [number, number] = [at, at + waits.lognormal(7, 0.7)];
      const [from, to] = wait;
      let tool = to;
      for (const name of ['run_tests', 'edit_file']) {
        const ms =
          tools.lognormal(name === 'run_tests' ? 420 : 60, 0.7) * m.toolFactor * random.lognormal(1, 0.06);
        calls.push({ tool: name, ms });
        tool += ms / 1000;
      }
      at = tool;
      const full = (18 + GROWTH * (turn + 1)) * MIB * random.lognormal(1, 0.02);
      waitEnd.push(full * (1 - m.out + m.out * m.stored));
      return { from, to, until: at, full };
    });
  });
  const end = Math.max(...spans.flat().map(({ until }) => until));
  const seconds = Array.from({ length: Math.ceil(end / STEP_SECONDS) }, (_, i) => i * STEP_SECONDS);
  const owned = seconds.map(() => 0);
  const pool = seconds.map(() => 0);
  seconds.forEach((second, i) => {
    for (const span of spans.flatMap((turns) => turns.filter((s) => s.from <= second && second < s.until))) {
      const out = second < span.to ? m.out * Math.min(1, (second - span.from) / 0.6) : 0.15 * m.out;
      owned[i] += Math.round(span.full * (1 - out));
      pool[i] += Math.round(span.full * out * m.stored);
    }
  });
  const held = (bytes: number) => seconds.map(() => Math.round(bytes * random.lognormal(1, 0.01)));
  const timeline = {
    seconds,
    owned,
    pool,
    base: held(m.base),
    overhead: held(m.overhead),
    swapCache: held(m.base / 3),
  };
  return { timeline, wallMs: end * 1000, latencies: calls.map(({ ms }) => ms), calls, waitEnd };
}

function summary(m: Model, runs: Run[], before: Run[], seed: number): SystemResult {
  const figures = runs.map(figuresOf);
  const plain = before.map(figuresOf);
  const each = (pick: (f: ReturnType<typeof figuresOf>, i: number) => number): Spread =>
    spread(figures.map(pick));
  const random = new Random(seed, m.system, 'summary');
  const toolMs = quantiles(runs.flatMap((run) => run.latencies));
  const toolMsBefore = quantiles(before.flatMap((run) => run.latencies));
  const around = (value: number): Spread =>
    spread(Array.from({ length: RUNS }, () => value * random.lognormal(1, 0.04)));
  return {
    ...{ system: m.system as SystemResult['system'], description: m.description, runs: RUNS },
    reductionTemplateFree: each((f, i) => plain[i].ownedMean / (f.ownedMean + f.poolMean)),
    reductionTemplateCharged: each((f, i) => plain[i].ownedMean / (f.ownedMean + f.poolMean + f.baseMean)),
    reductionAllIn: each(
      (f, i) =>
        plain[i].ownedMean / (f.ownedMean + f.poolMean + f.baseMean + f.overheadMean + f.swapCacheMean),
    ),
    reductionAtWaitEnd: each((f, i) => plain[i].waitEndMean / f.waitEndMean),
    peakReduction: each((f, i) => plain[i].peak / f.peak),
    wallMs: spread(runs.map(({ wallMs }) => wallMs)),
    slowdownWall: spread(runs.map(({ wallMs }, i) => wallMs / before[i].wallMs)),
    toolMs,
    toolSlowdown: {
      ...{ p50: toolMs.p50 / toolMsBefore.p50, p95: toolMs.p95 / toolMsBefore.p95 },
      p99: toolMs.p99 / toolMsBefore.p99,
    },
    bystanders: null,
    memory: Object.fromEntries(MEMORY.map((key) => [key, each((f) => f[key])])) as SystemResult['memory'],
    faults: {
      demand: m.out > 0 ? random.integer(2000, 90_000) : 0,
      prefetched: m.encodings ? random.integer(90_000, 400_000) : 0,
      wasted: m.encodings ? random.integer(5000, 30_000) : 0,
    },
    encodings: m.encodings ? (pages(m.encodings, random) as unknown as SystemResult['encodings']) : null,
    resultsIdentical: true,
    cpuSeconds: {
      tools: around(64 * Math.sqrt(m.toolFactor)),
      ...{ controller: around(m.cpu[0]), pager: around(m.cpu[1]), kernel: around(m.cpu[2]) },
    },
    busyShare: around(0.38 + 0.004 * (m.cpu[0] + m.cpu[1] + m.cpu[2])),
    timeline: runs[0].timeline,
    toolLatencyMs: Array.from({ length: 101 }, (_, p) =>
      quantile(
        runs.flatMap((run) => run.latencies),
        p / 100,
      ),
    ),
    tools: Object.fromEntries(
      ['edit_file', 'run_tests'].map((tool) => {
        const ms = runs.flatMap((run) =>
          run.calls.filter((call) => call.tool === tool).map((call) => call.ms),
        );
        return [tool, { calls: ms.length, p50: quantile(ms, 0.5), p95: quantile(ms, 0.95) }];
      }),
    ),
    notes: m.notes ?? [],
  };
}

const pages = (parts: Record<string, number>, random: Random): Record<string, number> =>
  Object.fromEntries(
    Object.entries(parts).map(([name, share]) => [
      name,
      Math.round(share * 1500 * random.lognormal(1, 0.05)),
    ]),
  );

function figuresOf({ timeline, wallMs, waitEnd }: Run) {
  const at = timeline.seconds.map((second) => second * 1000);
  const average = (values: number[]): number => timeAverage(at, values, 0, wallMs);
  return {
    ownedMean: average(timeline.owned),
    poolMean: average(timeline.pool),
    baseMean: average(timeline.base),
    overheadMean: average(timeline.overhead),
    swapCacheMean: average(timeline.swapCache),
    waitEndMean: waitEnd.reduce((sum, bytes) => sum + bytes, 0) / waitEnd.length,
    peak: Math.max(...timeline.owned.map((bytes, i) => bytes + timeline.pool[i])),
  };
}
