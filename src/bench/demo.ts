import { writeFileSync } from 'node:fs';
import { hostDisturbances } from './disturbances.js';
import type { Screen } from './live.js';
import { emptyFile } from './output-files.js';
import type { RunRecord } from './record.js';
import { report } from './report.js';
import type { BenchResult } from './result.js';
import { requireHost, requireSystems, runSession } from './session.js';
import { requireIdentical, summarize, type Task } from './summary.js';
import type { SystemName } from './system.js';
import { memoryOf } from './workload.js';
import { demo, planDemo } from './workloads/demo.js';

export interface DemoOptions {
  sandboxes: number;
  turns: number;
  seed: number;
  /** Runs of each system, interleaved. */
  runs: number;
  /** File for the results in schema agentzip.bench/1. */
  json?: string;
  /** File for AgentZip's spans, OTLP JSON, one a line. */
  spans?: string;
  /** Default: both. Results can be compared only with `none` among them. */
  systems?: readonly SystemName[];
  /** See DemoPlanOptions. */
  rows?: number;
  timeScale?: number;
  screen: Screen;
  /** Ends the demo early, in order; rejects with the signal's reason. */
  signal: AbortSignal;
}

/**
 * Runs the same fan-out without and with AgentZip, shows both as they go, prints the report and checks that the host
 * is as it was. AZ_RESULTS_DIFFER when one byte of one result differs; AZ_HOST_NOT_CLEAN when something is left.
 */
export async function runDemo(options: DemoOptions): Promise<BenchResult> {
  requireHost(options.sandboxes, demo.sandboxMiB, 'demo');
  const { systems = ['none', 'agentzip'] } = options;
  requireSystems(systems, 'demo');
  const [json, spans] = [
    emptyFile('--json', options.json, 'demo'),
    emptyFile('--spans', options.spans, 'demo'),
  ];
  const plan = planDemo(options);
  const { sandboxes, turns, seed, timeScale = 1 } = options;
  const task: Task = {
    ...{ workload: demo.name, sandboxes, turns, seed, timeScale, plan, command: 'agentzip demo' },
    ...{ deviations: [], disturbances: hostDisturbances() },
  };
  const memoryBytes = memoryOf(demo, sandboxes);
  return runSession({ ...options, plan, systems, memoryBytes, spans }, (runs) =>
    conclude(task, runs, json, options.screen),
  );
}

function conclude(
  task: Task,
  runs: readonly RunRecord[],
  json: string | undefined,
  screen: Screen,
): BenchResult {
  const result = summarize(task, runs);
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
  screen.write(`${report(result)}\n`);
  requireIdentical(task, runs);
  if (runs.length > 1) screen.write('results identical\n');
  return result;
}
