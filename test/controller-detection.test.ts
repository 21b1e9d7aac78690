import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Phase } from '../src/controller/api.js';
import { eventOf } from '../src/controller/detection.js';
import { transition } from '../src/controller/phases.js';
import { Bench } from './support/controller.js';

const PHASES = ['llm_wait', 'llm_streaming', 'tool_running', 'idle'] as const;

test.each(PHASES)('%s is what its event would have made', (phase) => {
  for (const before of PHASES) {
    expect(transition(eventOf(before, phase)).phase).toBe(phase);
  }
});

test.each<[before: Phase, now: Exclude<Phase, 'unknown'>, opens: boolean, ends: string | null]>([
  ['tool_running', 'llm_wait', true, null],
  ['llm_wait', 'llm_streaming', false, 'first_token'],
  ['llm_wait', 'tool_running', false, 'tool_start'],
  ['llm_wait', 'idle', false, 'first_token'],
  ['llm_streaming', 'idle', false, 'first_token'],
  ['tool_running', 'idle', false, null],
])('from %s to %s', (before, now, opens, ends) => {
  expect(transition(eventOf(before, now))).toMatchObject({ opens, ends });
});

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start();
});
afterEach(() => bench.stop());

test('without probes nobody says what a sandbox does, until its host does', async () => {
  const { controller } = bench;
  const python = await bench.python();
  const { phase, phaseSource } = await controller.putSandbox('one', { pids: [python.pid] });
  expect({ phase, phaseSource }).toEqual({ phase: 'unknown', phaseSource: 'none' });
  controller.event('one', { type: 'tool_start' });
  expect(await controller.getSandbox('one')).toMatchObject({ phase: 'tool_running', phaseSource: 'host' });
});
