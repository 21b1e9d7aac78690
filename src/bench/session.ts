import { freemem } from 'node:os';
import { AgentZipError, explain } from '../errors.js';
import type { SandboxCgroups } from './cgroups.js';
import { leftOnHost } from './host.js';
import { LiveTable, type Screen } from './live.js';
import type { RunRecord } from './record.js';
import { type Onlooker, runFanOut } from './run.js';
import { labelOf, type System, type SystemName } from './system.js';
import { SYSTEMS } from './systems/table.js';
import { RunView } from './view.js';
import type { Plan } from './workload.js';
import { Workspace } from './workspace.js';

const MIB = 2 ** 20;
/** What a template, AgentZip and Node take beside the sandboxes. */
const FIXED_MIB = 1200;

export interface SessionOptions {
  plan: Plan;
  /** In the order in which each round runs them. */
  systems: readonly SystemName[];
  /** Rounds: every system runs once in each. */
  runs: number;
  seed: number;
  /** What all sandboxes together take at their ends, roughly. */
  memoryBytes: number;
  /** File for AgentZip's spans, OTLP JSON, one a line. */
  spans?: string;
  onlooker?: Onlooker;
  screen: Screen;
  /** Ends the session early, in order; rejects with the signal's reason. */
  signal: AbortSignal;
}

/** AZ_NOT_ROOT without root; AZ_USAGE when so many sandboxes do not fit into the memory that is available. */
export function requireHost(sandboxes: number, sandboxMiB: number, command: string): void {
  const uid = process.getuid?.() ?? -1;
  if (uid !== 0) throw new AgentZipError('AZ_NOT_ROOT', { uid });
  const neededMiB = sandboxes * sandboxMiB + FIXED_MIB;
  const availableMiB = Math.floor(freemem() / MIB); // libuv reads MemAvailable
  if (neededMiB > availableMiB) {
    throw new AgentZipError('AZ_USAGE', {
      what: `${sandboxes} sandboxes need about ${neededMiB} MiB of memory, and ${availableMiB} MiB is available`,
      command,
    });
  }
}

/** AZ_USAGE when this host can not run one of them. */
export function requireSystems(systems: readonly SystemName[], command: string): void {
  const missing = systems.flatMap((name) => {
    const reason = SYSTEMS[name].requires?.() ?? null;
    return reason === null ? [] : [`${name}: ${reason}`];
  });
  if (missing.length > 0) {
    const what = `this host can not run every system named: ${missing.join('; ')}`;
    throw new AgentZipError('AZ_USAGE', { what, command });
  }
}

/**
 * Runs the plan under each system in turn, shows every run as it goes, hands the records to `conclude`, and checks
 * that the host is as it was. AZ_HOST_NOT_CLEAN when something is left; what `conclude` threw comes first.
 */
export function runSession<T>(
  options: SessionOptions,
  conclude: (runs: readonly RunRecord[]) => T,
): Promise<T> {
  return inWorkspace(options, async (workspace, made) => conclude(await runRounds(options, workspace, made)));
}

/**
 * Does `work` with a folder of its own, and then checks that it and the systems it has put into `made` left nothing on
 * the host: AZ_HOST_NOT_CLEAN. What `work` threw comes first.
 */
export async function inWorkspace<T>(
  { screen, signal }: Pick<SessionOptions, 'screen' | 'signal'>,
  work: (workspace: Workspace, made: System[]) => Promise<T>,
): Promise<T> {
  const workspace = new Workspace();
  const made: System[] = [];
  let failure: unknown;
  let result: T | undefined;
  try {
    result = await work(workspace, made);
  } catch (error) {
    failure = error;
  }
  const left = [...made.flatMap((system) => system.left?.() ?? []), ...leftOnHost(workspace.folder)];
  workspace.remove({ keepLog: (failure !== undefined && !signal.aborted) || left.length > 0 });
  const dirty = left.length > 0 ? notClean(left, workspace) : undefined;
  if (failure !== undefined) {
    if (dirty) screen.write(`${explain(dirty)}\n`);
    throw failure;
  }
  if (dirty) throw dirty;
  screen.write('host clean: no swap, loop device, mount, cgroup or process left\n');
  return result as T;
}

async function runRounds(
  options: SessionOptions,
  workspace: Workspace,
  made: System[],
): Promise<RunRecord[]> {
  const { plan, screen, signal, seed, spans, memoryBytes, onlooker } = options;
  const { folder, log } = workspace;
  const live = new LiveTable(screen);
  const records: RunRecord[] = [];
  const startedAt = Date.now();
  for (let run = 1; run <= options.runs; run++) {
    for (const name of options.systems) {
      signal.throwIfAborted();
      const view = viewOf(name, run, options);
      view.session = { done: records.length, of: options.runs * options.systems.length, startedAt };
      const make = (cgroups: SandboxCgroups): System => {
        const system = SYSTEMS[name].make({ folder, log, spans, cgroups, memoryBytes });
        made.push(system);
        return system;
      };
      live.start(view);
      try {
        records.push(await runFanOut({ make, plan, seed, folder, view, onlooker, signal }));
      } finally {
        live.stop(view);
        for (const note of view.notes) screen.write(`${note}\n`);
      }
    }
  }
  return records;
}

function viewOf(name: SystemName, run: number, { plan, runs }: SessionOptions): RunView {
  const number = runs > 1 ? ` (run ${run} of ${runs})` : '';
  const label = labelOf(name);
  const title = `${label[0].toUpperCase()}${label.slice(1)}${number}`;
  const turns = new Map(plan.trajectories.map((trajectory) => [trajectory.sandbox, trajectory.turns.length]));
  return new RunView(title, turns);
}

const notClean = (left: readonly string[], workspace: Workspace): AgentZipError =>
  new AgentZipError('AZ_HOST_NOT_CLEAN', {
    what: left.join(', '),
    remedy: `run agentzip drain --runtime-dir ${workspace.folder}/run, and see ${workspace.log}`,
  });
