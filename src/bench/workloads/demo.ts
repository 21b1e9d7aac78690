import { ONE_THREAD, pythonCommand } from '../python.js';
import { Random } from '../random.js';
import type { Plan, PlanOptions, ToolCall, Trajectory, Turn, Workload } from '../workload.js';

export interface DemoPlanOptions {
  sandboxes: number;
  turns: number;
  seed: number;
  /** Rows of the task's main table: 24 000 make a session grow to some 20–40 MiB in six turns. */
  rows?: number;
  /** Multiplies every wait; tests use a small one. */
  timeScale?: number;
}

const DEFAULT_ROWS = 24_000;
const TEMPLATE = 'python';
const TENANT = 'demo';

const FIRST_TOKEN_MEDIAN_MS = 4000;
/** Puts the 95th percentile at 11 s. */
const FIRST_TOKEN_SIGMA = 0.615;
/** The demo has to end: a wait is never longer. */
const FIRST_TOKEN_RANGE_MS = [800, 12_000] as const;
const STREAM_RANGE_MS = [1000, 3000] as const;
const START_SPREAD_MS = 1000;
/** How often an attempt leaves the common path for a step of its own. */
const DIVERGENCE = 0.2;
const TOOLS = ['group', 'merge', 'rolling', 'matrix', 'text', 'documents', 'shell', 'plot'] as const;

/**
 * The attempts of one fan-out at one task. They share the task's data and most steps; each takes some steps of its
 * own and sees some rows its own way. The first turn loads the data, the last one reads everything back.
 */
export function planTrajectories(options: DemoPlanOptions): Trajectory[] {
  const { seed, turns, rows = DEFAULT_ROWS, timeScale = 1 } = options;
  const task = new Random(seed, 'task');
  const taskSeed = task.integer(0, 2 ** 31);
  const steps = Array.from({ length: turns }, (_, turn) =>
    Array.from({ length: task.next() < 0.5 ? 1 : 2 }, () => ({
      tool: turn === 0 ? 'load' : task.pick(TOOLS),
      own: task.integer(0, 2 ** 31),
    })).slice(0, turn === 0 ? 1 : 2),
  );
  return Array.from({ length: options.sandboxes }, (_, index) => {
    const sandbox = `sandbox-${index + 1}`;
    const attempt = new Random(seed, sandbox);
    const wait = new Random(seed, sandbox, 'waits');
    const call = (tool: string, own: number): ToolCall => ({ tool, args: { seed: taskSeed, own, rows } });
    const planTurn = (step: (typeof steps)[number], turn: number): Turn => {
      const calls = step.map(({ tool, own }) => {
        const leaves = attempt.next() < DIVERGENCE;
        const other = attempt.pick(TOOLS);
        const ownSeed = attempt.integer(0, 2 ** 31);
        // The task's file is the same for all; who leaves the path there has cleaned it its own way.
        if (turn === 0) return call(tool, leaves ? ownSeed : own);
        return leaves ? call(other, ownSeed) : call(tool, own);
      });
      if (turn === turns - 1) calls.push(call('review', 0));
      const [least, most] = FIRST_TOKEN_RANGE_MS;
      const first = wait.lognormal(FIRST_TOKEN_MEDIAN_MS, FIRST_TOKEN_SIGMA);
      return {
        firstTokenMs: Math.min(Math.max(first, least), most) * timeScale,
        streamMs: wait.integer(...STREAM_RANGE_MS) * timeScale,
        calls,
      };
    };
    const startMs = wait.next() * START_SPREAD_MS * timeScale;
    return { sandbox, template: TEMPLATE, tenant: TENANT, startMs, turns: steps.map(planTurn) };
  });
}

export const planDemo = (options: DemoPlanOptions): Plan => ({
  templates: [
    { id: TEMPLATE, tenant: TENANT, launch: 'fork', command: pythonCommand('tools'), env: ONE_THREAD },
  ],
  trajectories: planTrajectories(options),
});

export const demo: Workload = {
  name: 'demo',
  description: 'one template, Python sandboxes that analyse the same data, each a little its own way',
  sandboxes: 8,
  turns: 6,
  sandboxMiB: 130,
  async prepare(): Promise<void> {},
  plan: (options: PlanOptions): Plan => planDemo(options),
};
