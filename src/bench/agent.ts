import { setTimeout as sleep } from 'node:timers/promises';
import { askModel } from './llm.js';
import { Random } from './random.js';
import type { CallRecord } from './record.js';
import type { HostEvent } from './system.js';
import type { Sandbox } from './sandbox.js';
import type { ToolCall, Trajectory } from './workload.js';

export type Activity = 'starting' | 'waiting' | 'streaming' | 'tool' | 'done';

/** What the agent loop reports to its platform. */
export interface AgentPort {
  event(event: HostEvent): Promise<void>;
  /** The first token is here, and nobody else knows yet. */
  waitEnded(turn: number, waitedMs: number): Promise<void>;
  called(call: CallRecord): void;
  activity(turn: number, activity: Activity, tool?: string): void;
}

export interface AgentOptions {
  modelUrl: string;
  seed: number;
  signal: AbortSignal;
}

/**
 * One agent: asks the model, runs the tools it asks for, and so on, until its trajectory ends. The platform's events
 * are sent where a platform would send them and awaited, so that what they cost is in the times.
 */
export async function runAgent(
  trajectory: Trajectory,
  sandbox: Sandbox,
  port: AgentPort,
  options: AgentOptions,
): Promise<void> {
  const { modelUrl, signal } = options;
  const ids = new Random(options.seed, trajectory.sandbox, 'trace');
  await sleep(trajectory.startMs, undefined, { signal });
  if (trajectory.bystander) return runSteadily(trajectory, sandbox, port, signal);
  for (let turn = 0; turn < trajectory.turns.length; turn++) {
    const traceparent = `00-${ids.hex(32)}-${ids.hex(16)}-01`;
    port.activity(turn, 'waiting');
    const sentAt = Date.now();
    await port.event({ type: 'llm_request_sent', at: sentAt, traceparent });
    const onFirstToken = async (): Promise<void> => {
      const at = Date.now();
      await port.waitEnded(turn, at - sentAt);
      port.activity(turn, 'streaming');
      await port.event({ type: 'llm_first_token', at, traceparent });
    };
    const calls = await askModel(modelUrl, { sandbox: trajectory.sandbox, turn }, onFirstToken, signal);
    await port.event({
      type: 'llm_response_end',
      traceparent,
      ...(calls.length > 0 && { tool: calls[0].tool }),
    });
    await runTools(calls, turn, sandbox, port, signal);
  }
  port.activity(trajectory.turns.length - 1, 'done');
}

/** A sandbox that is never in a window. */
async function runSteadily(
  { turns }: Trajectory,
  sandbox: Sandbox,
  port: AgentPort,
  signal: AbortSignal,
): Promise<void> {
  for (let turn = 0; turn < turns.length; turn++) {
    await sleep(turns[turn].firstTokenMs, undefined, { signal });
    await runTools(turns[turn].calls, turn, sandbox, port, signal);
  }
  port.activity(turns.length - 1, 'done');
}

async function runTools(
  calls: readonly ToolCall[],
  turn: number,
  sandbox: Sandbox,
  port: AgentPort,
  signal: AbortSignal,
): Promise<void> {
  for (const call of calls) {
    signal.throwIfAborted();
    port.activity(turn, 'tool', call.tool);
    const from = performance.now();
    await port.event({ type: 'tool_start', tool: call.tool });
    const startedAt = performance.now();
    const result = await sandbox.call(call);
    const endedAt = performance.now();
    await port.event({ type: 'tool_end' });
    const times = { ms: endedAt - from, aloneMs: endedAt - startedAt };
    port.called({ sandbox: sandbox.id, turn, tool: call.tool, ...times, result });
  }
}
