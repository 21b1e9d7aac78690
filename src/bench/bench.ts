import { mkdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { AgentZipError, explain } from '../errors.js';
import { benchTable } from './bench-table.js';
import { hostDisturbances } from './disturbances.js';
import type { Screen } from './live.js';
import { emptyFile } from './output-files.js';
import type { RunRecord } from './record.js';
import type { BenchResult } from './result.js';
import { requireHost, requireSystems, runSession } from './session.js';
import { requireIdentical, summarize, type Task } from './summary.js';
import { SYSTEM_NAMES, type SystemName } from './system.js';
import { undoStale } from './systems/host-changes.js';
import { memoryOf, type Workload } from './workload.js';
import { WORKLOADS } from './workloads/table.js';

/** Below that a spread says little. */
const ENOUGH_RUNS = 3;

export interface BenchOptions {
  workload: string;
  /** `none` runs in any case, and first: all others are compared with it. */
  systems: readonly string[];
  /** Runs of each system, interleaved. */
  runs: number;
  /** Default: the workload's. */
  sandboxes?: number;
  turns?: number;
  seed: number;
  timeScale: number;
  /** Files for the results: schema agentzip.bench/1, a page, AgentZip's spans. */
  json?: string;
  report?: string;
  spans?: string;
  /** Folder for what workloads install; kept. */
  files: string;
  /** What was typed, for the results. */
  command: string;
  screen: Screen;
  /** Ends the bench early, in order; rejects with the signal's reason. */
  signal: AbortSignal;
}

/**
 * Runs a workload under several systems, compares them, prints tables, writes the files, and checks that the host is
 * as it was. Everything that can be checked is checked before the first run. AZ_RESULTS_DIFFER when one byte of one
 * result differs from the run without a system: the files are written all the same.
 */
export async function runBench(options: BenchOptions): Promise<BenchResult> {
  const { screen, signal, seed, timeScale, runs } = options;
  const workload = workloadNamed(options.workload);
  const systems = systemsNamed(options.systems);
  const { sandboxes = workload.sandboxes, turns = workload.turns } = options;
  requireHost(sandboxes, workload.sandboxMiB, 'bench');
  for (const what of await undoStale())
    screen.write(`left by a bench that was killed, and undone: ${what}\n`);
  requireSystems(systems, 'bench');
  const outputs = {
    json: emptyFile('--json', options.json, 'bench'),
    report: emptyFile('--report', options.report, 'bench'),
    // Loaded where a page is wanted alone: the library that draws plots takes a third of a second.
    render: options.report === undefined ? undefined : (await import('./report/html.js')).renderReport,
  };
  const spans = emptyFile('--spans', options.spans, 'bench');
  const files = filesFolder(options.files);
  await workload.prepare(files, (line) => screen.write(`${line}\n`), signal);
  signal.throwIfAborted();
  const plan = workload.plan({ seed, sandboxes, turns, timeScale, files });
  const disturbances = hostDisturbances();
  for (const text of disturbances) screen.write(`disturbance ${text}\n`);
  const task: Task = {
    ...{ workload: workload.name, sandboxes, turns, seed, timeScale, command: options.command, plan },
    ...{ deviations: deviations(workload, { sandboxes, turns, timeScale, runs }), disturbances },
  };
  const memoryBytes = memoryOf(workload, sandboxes);
  return runSession({ plan, systems, runs, seed, memoryBytes, spans, screen, signal }, (records) =>
    conclude(task, records, outputs, screen),
  );
}

const unknown = (what: string, allowed: readonly string[]): AgentZipError =>
  new AgentZipError('AZ_USAGE', {
    what: `${what} is not known; allowed: ${allowed.join(', ')}`,
    command: 'bench',
  });

/** AZ_USAGE for a name that is none. */
export function workloadNamed(name: string): Workload {
  const workload = WORKLOADS.find((candidate) => candidate.name === name);
  if (workload) return workload;
  throw unknown(
    `workload ${name || '(empty)'}`,
    WORKLOADS.map((candidate) => candidate.name),
  );
}

const isSystem = (name: string): name is SystemName => (SYSTEM_NAMES as readonly string[]).includes(name);

/** `none` first, then the others as they were named, each once. */
function systemsNamed(names: readonly string[]): SystemName[] {
  return [
    ...new Set<SystemName>([
      'none',
      ...names.map((name) => {
        if (isSystem(name)) return name;
        throw unknown(`system ${name || '(empty)'}`, SYSTEM_NAMES);
      }),
    ]),
  ];
}

/** Makes the folder for what workloads install; AZ_USAGE when it can not be made. */
export function filesFolder(path: string): string {
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    const what = `--files ${path} can not be made: ${explain(error)}`;
    throw new AgentZipError('AZ_USAGE', { what, command: 'bench' }, { cause: error });
  }
  return resolve(path);
}

function deviations(
  workload: Workload,
  given: { sandboxes: number; turns: number; timeScale: number; runs: number },
): string[] {
  const found: string[] = [];
  for (const of of ['sandboxes', 'turns'] as const) {
    if (given[of] !== workload[of]) found.push(`${given[of]} ${of} instead of ${workload[of]}`);
  }
  if (given.timeScale !== 1) found.push(`every wait is multiplied by ${given.timeScale}`);
  if (given.runs < ENOUGH_RUNS)
    found.push(`${given.runs} run(s) of each system instead of ${ENOUGH_RUNS} or more`);
  return found;
}

/** Writes the files, prints the tables, and then judges: AZ_RESULTS_DIFFER. */
export function conclude(
  task: Task,
  records: readonly RunRecord[],
  outputs: { json?: string; report?: string; render?: (result: BenchResult) => string },
  screen: Screen,
): BenchResult {
  const result = summarize(task, records);
  if (outputs.json !== undefined) writeFileSync(outputs.json, `${JSON.stringify(result, null, 2)}\n`);
  if (outputs.report !== undefined && outputs.render) writeFileSync(outputs.report, outputs.render(result));
  screen.write(`${benchTable(result)}\n`);
  requireIdentical(task, records);
  screen.write('results identical\n');
  return result;
}
