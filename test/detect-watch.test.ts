import { spawnSync } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../src/paths.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import type { Phase } from '../src/telemetry/phase-detector.js';
import { PhaseWatch } from '../src/telemetry/phase-watch.js';
import { TreeCpu } from '../src/telemetry/tree-cpu.js';
import { probesMissing } from './fixtures/toucher.js';
import { Python } from './support/python.js';

const ALL = ['process_fork', 'process_exec', 'socket_sent', 'socket_arrived', 'socket_closed'];
const nowNs = (): number => Number(process.hrtime.bigint());
const sent = (bytes: number) => ({
  ...{ connection: 1, pid: 1, port: 80, inbound: false, sentBytes: bytes, receivedBytes: 0 },
});

describe('a watch', () => {
  let watch: PhaseWatch;
  let dropped: number;
  let told: [tag: number, phase: Phase][];
  let armed: Map<number, boolean>;
  const make = (attached: readonly string[] = ALL): PhaseWatch =>
    (watch = new PhaseWatch({
      probes: {
        attached,
        arm: (tag, on) => void armed.set(tag, on),
        stats: () => ({ dropped }),
      },
      limits: DEFAULT_POLICY.detect,
      poll: () => {},
      pids: () => [],
      onPhase: (tag, phase) => told.push([tag, phase]),
    }));
  beforeEach(() => {
    dropped = 0;
    told = [];
    armed = new Map();
  });
  afterEach(() => watch.close());

  it('tells each sandbox’s phases apart, by itself when it is time', async () => {
    make();
    watch.add(1);
    watch.add(2);
    watch.traffic(1, sent(5000), nowNs());
    watch.started(2, nowNs());
    await expect.poll(() => told.length).toBe(2);
    expect(told).toEqual([
      [2, 'tool_running'],
      [1, 'llm_wait'],
    ]);
    watch.traffic(1, { ...sent(0), receivedBytes: 300 }, nowNs());
    expect(told[2]).toEqual([1, 'llm_streaming']);
  });

  it('wants to be woken by a sandbox unless a tool runs there', async () => {
    make();
    watch.add(1);
    expect(armed.get(1)).toBe(true);
    watch.started(1, nowNs());
    expect(armed.get(1)).toBe(false);
    watch.traffic(1, sent(5000), nowNs());
    await expect.poll(() => armed.get(1)).toBe(true);
    watch.remove(1);
    expect(armed.get(1)).toBe(false);
    watch.traffic(1, sent(5000), nowNs());
    expect(told.map(([, phase]) => phase)).toEqual(['tool_running', 'llm_wait']);
  });

  it('knows nothing of any sandbox when events were lost', async () => {
    make();
    watch.add(1);
    watch.traffic(1, sent(5000), nowNs());
    await expect.poll(() => told).toEqual([[1, 'llm_wait']]);
    dropped = 3;
    await expect.poll(() => told, { timeout: 5000 }).toHaveLength(2);
    expect(told[1]).toEqual([1, 'unknown']);
  });

  it.each(ALL)('without %s tells nothing', (program) => {
    make(ALL.filter((name) => name !== program));
    expect(watch.able).toBe(false);
    watch.add(1);
    watch.started(1, nowNs());
    expect(told).toEqual([]);
  });

  it('takes what stands in for a tracepoint', () => {
    const stand = ['socket_sent_fexit', 'socket_arrived_fentry', 'socket_closed'];
    expect(make(['process_fork', 'process_exec', ...stand]).able).toBe(true);
  });
});

describe('the CPU time of a tree', () => {
  it('goes up with what its processes do, and not with those that leave', async () => {
    const python = await Python.start();
    try {
      const cpu = new TreeCpu();
      expect(cpu.ms([python.pid])).toBe(0);
      await python.run('sum(range(2_000_000)) and 1');
      const one = cpu.ms([python.pid, 2 ** 22]);
      expect(one).toBeGreaterThan(1);
      expect(cpu.ms([])).toBe(one);
      // What a process had used before it joined counts too: it is a child that was not seen yet.
      expect(cpu.ms([python.pid])).toBeGreaterThan(2 * one);
    } finally {
      await python.stop();
    }
  });
});

it.skipIf(probesMissing() !== null).each([
  ['exit', 7],
  ['throw', 1],
])('a process that waits for news can end: %s', (how, code) => {
  const fixture = `${packageRoot}/test/fixtures/exit-with-probes.mjs`;
  const ended = spawnSync(process.execPath, [fixture, how], { timeout: 20_000 });
  expect(ended.status).toBe(code);
});
