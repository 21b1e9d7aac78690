import { Random } from '../random.js';
import type { ToolCall, Trajectory } from '../workload.js';
import { planTurnWait } from '../workloads/waits.js';

const TOOLS = ['compute', 'wait', 'shell'] as const;
const CALLS_MAX = 2;
const [TOOL_MS_MIN, TOOL_MS_MAX] = [30, 400];
/** Agents do not start in one instant. */
const START_MS = 300;

function planCall(random: Random): ToolCall {
  return { tool: random.pick(TOOLS), args: { ms: random.integer(TOOL_MS_MIN, TOOL_MS_MAX) } };
}

export interface DetectPlanOptions {
  seed: number;
  sandboxes: number;
  turns: number;
  /** Multiplies every wait. */
  timeScale: number;
}

/** What each agent's model does; waits are those of the traces. */
export function planDetection({ seed, sandboxes, turns, timeScale }: DetectPlanOptions): Trajectory[] {
  return Array.from({ length: sandboxes }, (_, i) => {
    const sandbox = `box-${i + 1}`;
    const waits = new Random(seed, sandbox, 'waits');
    const random = new Random(seed, sandbox, 'tools');
    return {
      ...{ sandbox, template: 'none', tenant: 'bench', startMs: random.integer(0, START_MS) },
      turns: Array.from({ length: turns }, () => ({
        ...planTurnWait(waits, timeScale),
        calls: Array.from({ length: random.integer(1, CALLS_MAX + 1) }, () => planCall(random)),
      })),
    };
  });
}
