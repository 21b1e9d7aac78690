import { expect, test } from 'vitest';
import { type AgentPort, runAgent } from '../src/bench/agent.js';
import type { CallRecord } from '../src/bench/record.js';
import type { Sandbox } from '../src/bench/sandbox.js';
import { bystanders } from '../src/bench/workloads/bystanders.js';

const OPTIONS = { seed: 3, sandboxes: 6, turns: 3, timeScale: 0.5, files: '/nowhere' };

test('a sandbox that never waits stands beside every four that do, and works for as long as they do', () => {
  const { trajectories } = bystanders.plan(OPTIONS);
  const steady = trajectories.filter(({ bystander }) => bystander);
  expect(trajectories).toHaveLength(8);
  expect(steady.map(({ sandbox }) => sandbox)).toEqual(['bystander-1', 'bystander-2']);
  const pauses = steady.map(({ turns }) => turns.reduce((sum, { firstTokenMs }) => sum + firstTokenMs, 0));
  const waits = trajectories
    .filter(({ bystander }) => !bystander)
    .map(({ turns }) => turns.reduce((sum, { firstTokenMs, streamMs }) => sum + firstTokenMs + streamMs, 0));
  for (const pause of pauses) expect(pause).toBeGreaterThan(0.7 * Math.max(...waits));
  expect(bystanders.plan(OPTIONS)).toEqual(bystanders.plan(OPTIONS));
});

test('of its turns the system is told the tools alone, so that no window opens', async () => {
  const [plan] = bystanders.plan(OPTIONS).trajectories.filter(({ bystander }) => bystander);
  const turns = plan.turns.slice(0, 2).map((turn) => ({ ...turn, firstTokenMs: 1 }));
  const told: string[] = [];
  const calls: CallRecord[] = [];
  const port: AgentPort = {
    event: async ({ type }) => void told.push(type),
    waitEnded: () => Promise.reject(new Error('it does not wait')),
    called: (call) => void calls.push(call),
    activity: () => undefined,
  };
  const sandbox = { id: plan.sandbox, call: async () => '{}' } as unknown as Sandbox;
  const trajectory = { ...plan, startMs: 0, turns };
  const modelUrl = 'http://127.0.0.1:1/unused';
  await runAgent(trajectory, sandbox, port, { modelUrl, seed: 1, signal: new AbortController().signal });
  expect(told).toEqual(['tool_start', 'tool_end', 'tool_start', 'tool_end']);
  expect(calls.map(({ turn }) => turn)).toEqual([0, 1]);
  for (const { ms, aloneMs } of calls) expect(aloneMs).toBeLessThanOrEqual(ms);
});
