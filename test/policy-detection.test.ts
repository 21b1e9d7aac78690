import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AgentController } from '../src/controller/controller.js';
import { Policies } from '../src/controller/policies.js';
import { createTelemetry } from '../src/otel/telemetry.js';
import { withDefaults } from '../src/policy/defaults.js';
import { LivePolicy } from '../src/policy/live.js';
import type { PartialPolicy } from '../src/policy/policy.js';
import type { Probes } from '../src/telemetry/probes.js';
import { until } from './support/controller.js';
import { Python } from './support/python.js';
import { ScriptedPager } from './support/scripted-pager.js';

/** Probes that run and report nothing, and note what they are told to look for. */
class QuietProbes {
  readonly attached = ['process_fork', 'process_exec', 'socket_sent', 'socket_arrived', 'socket_closed'];
  readonly warnings: string[] = [];
  readonly pending = false;
  readonly ports = new Set<number>();
  readonly endpoints = new Set<string>();
  addInbound(port: number): void {
    this.ports.add(port);
  }
  removeInbound(port: number): void {
    this.ports.delete(port);
  }
  addEndpoint(key: Uint8Array): void {
    this.endpoints.add(Buffer.from(key).toString('hex'));
  }
  removeEndpoint(key: Uint8Array): void {
    this.endpoints.delete(Buffer.from(key).toString('hex'));
  }
  stats() {
    return { events: 0, dropped: 0 };
  }
  track(): boolean {
    return true;
  }
  untrack(): void {}
  tracked(): number[] {
    return [];
  }
  tagOf(): null {
    return null;
  }
  poll(): void {}
  arm(): void {}
  onNews(): void {}
  addCgroup(): void {}
  removeCgroup(): void {}
  close(): void {}
}

let folder: string;
let python: Python;
let pager: ScriptedPager;
let controller: AgentController;
let live: LivePolicy;
let probes: QuietProbes;
const detect = { endpoints: ['192.0.2.1', '192.0.2.2'], inbound: [8080] };
const given = (more: PartialPolicy['detect'] = {}) =>
  withDefaults({ paths: { stateDir: folder }, detect: { ...detect, ...more } });

beforeEach(async () => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  python = await Python.start();
  const started = await ScriptedPager.start();
  pager = started.pager;
  live = new LivePolicy(given());
  probes = new QuietProbes();
  const telemetry = createTelemetry(live.current.otel, { version: 'test', instance: 'test' });
  const policies = new Policies(live);
  controller = await AgentController.over(started.client, policies, telemetry, {
    ...{ probes: probes as unknown as Probes, reads: null, warnings: [] },
  });
  await controller.putSandbox('one', { pids: [python.pid] });
});
afterEach(async () => {
  await controller.close();
  pager.stop();
  await python.stop();
  rmSync(folder, { recursive: true });
});
const one = () => controller.getSandbox('one');

test('detect: other endpoints and ports are looked for instead of those from before', async () => {
  const before = [...probes.endpoints];
  expect([before.length, [...probes.ports]]).toEqual([2, [8080]]);
  live.apply(given({ endpoints: ['192.0.2.2', '192.0.2.9:8443', '192.0.2.10'], inbound: [9000, 9001] }));
  expect([probes.endpoints.size, [...probes.ports]]).toEqual([3, [9000, 9001]]);
  expect(probes.endpoints.has(before[0])).toBe(false);
  expect(probes.endpoints.has(before[1])).toBe(true);
  expect((await one()).phaseSource).toBe('probes');
});

test('detect: turned off, windows that it opened end; turned on, sandboxes are watched again', async () => {
  // As if the probes had said so.
  const found = controller as unknown as { detected(sandbox: unknown, phase: string): void };
  const { context } = controller as unknown as { context: { registry: { get(id: string): unknown } } };
  found.detected(context.registry.get('one'), 'llm_wait');
  await until(() => pager.asked.includes('openWindow one'));
  live.apply(given({ enabled: false }));
  await until(async () => (await one()).lastWindow !== null);
  expect(await one()).toMatchObject({ phase: 'unknown', phaseSource: 'none' });
  expect([probes.endpoints.size, probes.ports.size]).toEqual([0, 0]);
  live.apply(given());
  expect((await one()).phaseSource).toBe('probes');
  expect(probes.endpoints.size).toBe(2);
});

test('detect: thresholds hold at once, and nothing begins anew; what a host tells is left alone', async () => {
  controller.event('one', { type: 'llm_request_sent', expectedMs: 60_000 });
  await until(() => pager.asked.includes('openWindow one'));
  live.apply(given({ silenceMs: 500, idleMs: 2_000 }));
  live.apply(given({ endpoints: ['192.0.2.7'] }));
  expect(await one()).toMatchObject({ phase: 'llm_wait', phaseSource: 'host', lastWindow: null });
});
