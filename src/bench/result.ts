import type { Quantiles, Spread } from './stats.js';
import type { Status, SystemName } from './system.js';

/** Schema agentzip.bench/1; bench.schema.json is the same in JSON Schema. */
export interface BenchResult {
  schema: 'agentzip.bench/1';
  host: { kernel: string; cpus: number; cpu: string; memoryBytes: number; node: string; agentzip: string };
  /** When the first run started, ISO 8601. */
  startedAt: string;
  /** What was typed. */
  command: string;
  workload: string;
  sandboxes: number;
  turns: number;
  seed: number;
  timeScale: number;
  /** Of each system. */
  runs: number;
  plan: {
    templates: number;
    /** Tool calls of one run. */
    calls: number;
    /** From request to first token, as planned. */
    waitsMs: { p50: number; p95: number };
  };
  /** What the figures mean, by name. */
  definitions: Record<string, string>;
  /** Where this run departs from how the workload is meant to be run. */
  deviations: string[];
  /** What on this host may have shifted the figures. */
  disturbances: string[];
  systems: SystemResult[];
}

/** Names of the memory figures; see MemoryFigures in summary.ts. */
export const MEMORY = [
  'ownedMean',
  'poolMean',
  'baseMean',
  'overheadMean',
  'swapCacheMean',
  'waitEndMean',
  'peak',
] as const;

/** One system over all its runs. Ratios compare each run with the run of `none` that had its number. */
export interface SystemResult {
  system: SystemName;
  description: string;
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
  /** Percentiles 0 to 100 of the tool calls of all runs, milliseconds: 101 numbers. */
  toolLatencyMs: number[];
  /** Sandboxes that never wait for a model, where the workload has such; null: it has none. */
  bystanders: Bystanders | null;
  /** By tool: calls in all runs, and quantiles in milliseconds. */
  tools: Record<string, { calls: number; p50: number; p95: number }>;
  /** Bytes; means are time averages. */
  memory: Record<(typeof MEMORY)[number], Spread>;
  /** Processor seconds of a run, by who used them. */
  cpuSeconds: { tools: Spread; controller: Spread; pager: Spread; kernel: Spread };
  /** Share of the machine's processor time that was in use, 0 to 1. */
  busyShare: Spread;
  /** Of the first run: seconds since its start, and bytes at each of those instants. */
  timeline: Timeline;
  /** Of an average run. */
  faults: { demand: number; prefetched: number; wasted: number };
  /** Pages by encoding when most pages were out, in the last run. */
  encodings: Status['pager']['encodings'] | null;
  resultsIdentical: boolean;
  /** What the system could not do here. */
  notes: string[];
}

/** Their tool calls, which are in no other figure of tools; ratios are quantiles over those of the run of `none` with the same number. */
export interface Bystanders {
  sandboxes: number;
  /** In all runs. */
  calls: number;
  toolMs: Quantiles;
  slowdown: { p50: Spread; p95: Spread; p99: Spread };
}

export interface Timeline {
  seconds: number[];
  owned: number[];
  pool: number[];
  base: number[];
  overhead: number[];
  swapCache: number[];
}
