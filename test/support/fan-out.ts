import { mkdtempSync, rmSync } from 'node:fs';
import { pythonCommand } from '../../src/bench/python.js';
import type { RunRecord } from '../../src/bench/record.js';
import { runFanOut } from '../../src/bench/run.js';
import type { System } from '../../src/bench/system.js';
import { NoSystem } from '../../src/bench/systems/none.js';
import { RunView } from '../../src/bench/view.js';
import type { Plan, TemplatePlan, ToolCall, Trajectory } from '../../src/bench/workload.js';
import { packageRoot } from '../../src/paths.js';

/** A template of the cheap tools in fixtures/small_tools.py. */
export const smallTemplate = (
  id: string,
  launch: TemplatePlan['launch'],
  tenant: string,
  ...args: string[]
): TemplatePlan => ({
  ...{ id, launch, tenant, command: pythonCommand('small_tools', ...args) },
  env: { PYTHONPATH: `${packageRoot}/test/fixtures` },
});

/** An agent that waits a moment and then makes these calls, in one turn. */
export const agent = (sandbox: string, { id, tenant }: TemplatePlan, calls: ToolCall[]): Trajectory => ({
  ...{ sandbox, template: id, tenant, startMs: 0 },
  turns: [{ firstTokenMs: 20, streamMs: 20, calls }],
});

/** Runs a plan without a memory system, or with the one that is given, in a folder that is removed. */
export async function fanOut(plan: Plan, system: System = new NoSystem()): Promise<RunRecord> {
  const folder = mkdtempSync('/var/tmp/agentzip-test-bench-');
  const view = new RunView('test', new Map());
  const signal = new AbortController().signal;
  try {
    return await runFanOut({ make: () => system, plan, seed: 1, folder, view, signal });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
