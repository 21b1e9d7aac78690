import { closeSync, openSync, writeFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { resolve } from 'node:path';
import { AgentZipError, explain } from '../errors.js';
import { leftOnHost } from './host.js';
import { LiveTable, type Screen } from './live.js';
import type { RunRecord } from './record.js';
import { report } from './report.js';
import { runFanOut } from './run.js';
import { AgentZipService } from './service.js';
import { type BenchResult, differenceAmong, summarize } from './summary.js';
import { NoSystem, type SystemName } from './system.js';
import { planTrajectories, type Trajectory } from './trajectory.js';
import { RunView } from './view.js';
import { Workspace } from './workspace.js';

const MIB = 2 ** 20;
/** A sandbox at its end, and what the template, AgentZip and Node take beside the sandboxes. */
const SANDBOX_MIB = 130;
const FIXED_MIB = 1200;

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
  /** See PlanOptions. */
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
  requireHost(options);
  const files = outputFiles(options);
  const workspace = new Workspace();
  const services: AgentZipService[] = [];
  let failure: unknown;
  let result: BenchResult | undefined;
  try {
    const runs = await runSystems(options, workspace, files.spans, services);
    result = conclude(options, runs, files.json);
  } catch (error) {
    failure = error;
  }
  const devices = services.map((service) => service.device).filter(Boolean);
  const left = [
    ...services.flatMap((service) => service.leftProcesses()),
    ...leftOnHost(workspace.folder, devices),
  ];
  workspace.remove({ keepLog: (failure !== undefined && !options.signal.aborted) || left.length > 0 });
  const dirty = left.length > 0 ? notClean(left, workspace) : undefined;
  if (failure !== undefined) {
    if (dirty) options.screen.write(`${explain(dirty)}\n`);
    throw failure;
  }
  if (dirty) throw dirty;
  options.screen.write('host clean: no swap, loop device, mount, cgroup or process left\n');
  return result as BenchResult;
}

function requireHost({ sandboxes }: DemoOptions): void {
  const uid = process.getuid?.() ?? -1;
  if (uid !== 0) throw new AgentZipError('AZ_NOT_ROOT', { uid });
  const neededMiB = sandboxes * SANDBOX_MIB + FIXED_MIB;
  const availableMiB = Math.floor(freemem() / MIB); // libuv reads MemAvailable
  if (neededMiB > availableMiB) {
    throw new AgentZipError('AZ_USAGE', {
      what: `${sandboxes} sandboxes need about ${neededMiB} MiB of memory, and ${availableMiB} MiB is available`,
      command: 'demo',
    });
  }
}

/** Empties the files the demo will write, so that a path that can not be written is found before the runs. */
function outputFiles({ json, spans }: DemoOptions): { json?: string; spans?: string } {
  const empty = (option: string, path: string | undefined): string | undefined => {
    if (path === undefined) return undefined;
    try {
      closeSync(openSync(path, 'w'));
    } catch (error) {
      throw new AgentZipError(
        'AZ_USAGE',
        { what: `${option} ${path} can not be written: ${explain(error)}`, command: 'demo' },
        { cause: error },
      );
    }
    return resolve(path);
  };
  return { json: empty('--json', json), spans: empty('--spans', spans) };
}

async function runSystems(
  options: DemoOptions,
  workspace: Workspace,
  spans: string | undefined,
  services: AgentZipService[],
): Promise<RunRecord[]> {
  const { screen, signal, seed, runs, systems = ['none', 'agentzip'] } = options;
  const trajectories = planTrajectories(options);
  const live = new LiveTable(screen);
  const records: RunRecord[] = [];
  for (let run = 1; run <= runs; run++) {
    for (const name of systems) {
      signal.throwIfAborted();
      const view = viewOf(name, run, options, trajectories);
      let system: NoSystem | AgentZipService = new NoSystem();
      if (name === 'agentzip') {
        system = new AgentZipService({ folder: workspace.folder, log: workspace.log, spans });
        services.push(system);
      }
      live.start(view);
      try {
        records.push(await runFanOut({ system, trajectories, seed, folder: workspace.folder, view, signal }));
      } finally {
        live.stop(view);
        for (const note of view.notes) screen.write(`${note}\n`);
      }
    }
  }
  return records;
}

function viewOf(
  name: SystemName,
  run: number,
  options: DemoOptions,
  trajectories: readonly Trajectory[],
): RunView {
  const number = options.runs > 1 ? ` (run ${run} of ${options.runs})` : '';
  const title = `${name === 'none' ? 'Without AgentZip' : 'With AgentZip'}${number}`;
  const ids = trajectories.map(({ sandbox }) => sandbox);
  return new RunView(title, ids, options.turns);
}

function conclude(options: DemoOptions, runs: readonly RunRecord[], json: string | undefined): BenchResult {
  const { sandboxes, turns, seed, screen } = options;
  const result = summarize({ name: 'demo', sandboxes, turns, seed }, runs);
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
  screen.write(`${report(result)}\n`);
  const difference = differenceAmong(runs);
  if (difference !== null) throw new AgentZipError('AZ_RESULTS_DIFFER', { what: difference, seed });
  if (runs.length > 1) screen.write('results identical\n');
  return result;
}

const notClean = (left: readonly string[], workspace: Workspace): AgentZipError =>
  new AgentZipError('AZ_HOST_NOT_CLEAN', {
    what: left.join(', '),
    remedy: `run agentzip drain --runtime-dir ${workspace.folder}/run, and see ${workspace.log}`,
  });
