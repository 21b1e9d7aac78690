import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentZipError } from '../../errors.js';
import { monotonicMs } from '../../schedule/clock.js';
import { Probes } from '../../telemetry/probes.js';
import { hostDisturbances } from '../disturbances.js';
import { LlmServer, type ServedTurn } from '../llm.js';
import type { Screen } from '../live.js';
import { emptyFile } from '../output-files.js';
import { hostFacts } from '../summary.js';
import type { Trajectory } from '../workload.js';
import { InnerAgent } from './agents.js';
import { Observer } from './observer.js';
import { measureOverhead } from './overhead.js';
import { planDetection } from './plan.js';
import { DEFINITIONS, type DetectResult } from './result.js';
import { type Observed, score } from './score.js';
import { detectTable } from './table.js';

/** Every fourth sandbox has a process in the background. */
const DAEMON_EVERY = 4;
const PROGRESS_MS = 5000;
/** Longest run beyond what its waits and streams take. */
const SLACK_MS = 300_000;
/** What is found out after the last turn is observed for so long. */
const TAIL_MS = 500;

export interface DetectOptions {
  sandboxes: number;
  turns: number;
  seed: number;
  timeScale: number;
  /** Rounds of the measurement of the overhead. */
  rounds: number;
  /** File for the result in schema agentzip.detect/1. */
  json?: string;
  command: string;
  screen: Screen;
  signal: AbortSignal;
}

/** Compares what the probes find out with what the model's server and the tools know. AZ_NOT_ROOT, AZ_PROBE_FAILED. */
export async function runDetect(options: DetectOptions): Promise<DetectResult> {
  const { screen, signal, rounds, sandboxes, turns, seed, timeScale, command } = options;
  const uid = process.getuid?.() ?? -1;
  if (uid !== 0) throw new AgentZipError('AZ_NOT_ROOT', { uid });
  const json = emptyFile('--json', options.json, 'bench');
  const startedAt = new Date().toISOString();
  const disturbances = hostDisturbances();
  for (const text of disturbances) screen.write(`disturbance ${text}\n`);
  const observed = await observe(options);
  const overhead = await measureOverhead(rounds, (line) => screen.write(`${line}\n`), signal);
  const result: DetectResult = {
    ...{ schema: 'agentzip.detect/1', host: hostFacts(), startedAt, command, seed, sandboxes, turns },
    ...{ timeScale, definitions: DEFINITIONS, disturbances, ...observed, overhead },
  };
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
  screen.write(`${detectTable(result)}\n`);
  return result;
}

type Observation = Omit<Observed, 'end'>;
type Found = Pick<
  DetectResult,
  'precision' | 'recall' | 'firstTokenMs' | 'toolStartMs' | 'events' | 'dropped' | 'watchCpuShare'
>;

async function observe(options: DetectOptions): Promise<Found> {
  const plan = planDetection(options);
  const probes = Probes.load({ faults: false });
  const observer = new Observer(probes);
  const model = await LlmServer.listen(plan);
  const agents: InnerAgent[] = [];
  try {
    if (!observer.able) {
      const reason = probes.warnings.join('; ') || 'a probe that phases need does not run';
      const remedy = 'see agentzip doctor';
      throw new AgentZipError('AZ_PROBE_FAILED', { probe: 'sandbox', step: 'used', reason, remedy });
    }
    observer.model(new URL(model.url));
    const offset = clockOffset();
    for (const [i, trajectory] of plan.entries()) {
      const agent = await InnerAgent.start(trajectory, new URL(model.url), i % DAEMON_EVERY === 0);
      agents.push(agent);
      observer.add(i + 1, [agent.pid]);
    }
    const [cpuBefore, began] = [process.cpuUsage(), monotonicMs()];
    await liveAll(agents, plan, model, options);
    const watchCpuShare = cpuShare(cpuBefore, monotonicMs() - began);
    const end = monotonicMs();
    const observations = agents.map(({ sandbox, tools }, i): Observation => {
      const served = model.served.filter((turn) => turn.sandbox === sandbox);
      return { truth: { turns: served.map(shifted(offset)), tools }, said: observer.timelines.get(i + 1)! };
    });
    const { events, dropped } = probes.stats();
    const scored = score(observations.map((observation) => ({ ...observation, end })));
    return { ...scored, events, dropped, watchCpuShare };
  } finally {
    for (const agent of agents) await agent.stop();
    await model.close();
    observer.close();
    probes.close();
  }
}

async function liveAll(
  agents: readonly InnerAgent[],
  plan: readonly Trajectory[],
  model: LlmServer,
  { screen, signal }: DetectOptions,
): Promise<void> {
  const all = plan.reduce((sum, { turns }) => sum + turns.length, 0);
  const progress = (): void => void screen.write(`detect: ${model.served.length} of ${all} turns\n`);
  const timer = setInterval(progress, PROGRESS_MS);
  try {
    await Promise.all(agents.map((agent, i) => agent.live(plannedMs(plan[i]) + SLACK_MS, signal)));
    await sleep(TAIL_MS, undefined, { signal });
  } finally {
    clearInterval(timer);
  }
}

const plannedMs = ({ turns }: Trajectory): number =>
  turns.reduce((sum, { firstTokenMs, streamMs }) => sum + firstTokenMs + streamMs, 0);

const cpuShare = (before: NodeJS.CpuUsage, wallMs: number): number => {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / wallMs;
};

/** What to add to Date.now() for the monotonic clock; found where Date.now(), which is whole, has just gone up. */
function clockOffset(): number {
  const before = Date.now();
  let now = before;
  while (now === before) now = Date.now();
  return monotonicMs() - now;
}

const shifted =
  (offset: number) =>
  ({ requestAt, firstTokenAt, endAt }: ServedTurn): Observed['truth']['turns'][number] => ({
    ...{ requestAt: requestAt + offset, firstTokenAt: firstTokenAt + offset, endAt: endAt + offset },
  });
