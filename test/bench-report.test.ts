import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { describe, expect, it } from 'vitest';
import { overall, table } from '../src/bench/live.js';
import type { RunRecord, Sample } from '../src/bench/record.js';
import { benchTable } from '../src/bench/bench-table.js';
import { report } from '../src/bench/report.js';
import { quantile, timeAverage } from '../src/bench/stats.js';
import { summarize, type Task } from '../src/bench/summary.js';
import { RunView } from '../src/bench/view.js';
import { planDemo } from '../src/bench/workloads/demo.js';

const MIB = 2 ** 20;
const schema = JSON.parse(readFileSync(new URL('../src/bench/bench.schema.json', import.meta.url), 'utf8'));

const sample = (at: number, owned: number, pool = 0, base = 0, overhead = 0, swapCache = 0): Sample => ({
  ...{ at, owned: owned * MIB, swapped: 0, pool: pool * MIB, base: base * MIB },
  ...{ overhead: overhead * MIB, swapCache: swapCache * MIB },
});

const run = (system: RunRecord['system'], wallMs: number, samples: Sample[], waitEnd: number): RunRecord => ({
  ...{ system, from: 0, to: wallMs, samples, accounts: [], served: [], fullest: null },
  ...{ cpu: { tools: 1, controller: 2, pager: 3, kernel: 4 }, busyShare: 0.5, notes: [], disturbances: [] },
  waits: [{ sandbox: 'sandbox-1', turn: 0, waitedMs: 10, owned: waitEnd * MIB, pool: MIB }],
  calls: [
    { sandbox: 'sandbox-1', turn: 0, tool: 'load', ms: wallMs / 10, aloneMs: wallMs / 20, result: '{}' },
  ],
});

const none = run('none', 1000, [sample(0, 100), sample(500, 300)], 299);
const zip = run('agentzip', 1100, [sample(0, 20, 5, 5, 10), sample(550, 20, 5, 15, 30, 10)], 29);
const task: Task = {
  ...{ workload: 'demo', sandboxes: 1, turns: 1, seed: 1, timeScale: 1, command: 'agentzip demo' },
  ...{ plan: planDemo({ sandboxes: 1, turns: 1, seed: 1 }), deviations: [], disturbances: [] },
};

describe('the results', () => {
  const result = summarize(task, [none, zip]);
  const agentzip = result.systems[1];

  it('follow the definitions', () => {
    expect(agentzip.reductionTemplateFree.median).toBeCloseTo(200 / 25);
    expect(agentzip.reductionTemplateCharged.median).toBeCloseTo(200 / (25 + 10));
    expect(agentzip.reductionAllIn.median).toBeCloseTo(200 / (25 + 10 + 20 + 5));
    expect(agentzip.reductionAtWaitEnd.median).toBeCloseTo(300 / 30);
    expect(agentzip.peakReduction.median).toBeCloseTo(300 / 25);
    expect(agentzip.slowdownWall.median).toBeCloseTo(1.1);
    expect(agentzip.toolSlowdown.p99).toBeCloseTo(1.1);
    expect(result.systems[0].reductionTemplateFree).toEqual({ median: 1, min: 1, max: 1 });
  });

  it('compare runs pair by pair and give their spread', () => {
    const slower = run('agentzip', 2000, zip.samples, 59);
    const { slowdownWall, runs } = summarize(task, [none, zip, none, slower]).systems[1];
    expect(runs).toBe(2);
    expect([slowdownWall.min, slowdownWall.max]).toEqual([1.1, 2]);
    expect(slowdownWall.median).toBeCloseTo(1.55);
  });

  it('validate against their schema, and a wrong field does not', () => {
    const validate = new Ajv().compile(schema);
    const copy = JSON.parse(JSON.stringify(result));
    expect(validate(copy), JSON.stringify(validate.errors)).toBe(true);
    copy.systems[1].slowdownWall = 1.1;
    expect(validate(copy)).toBe(false);
  });

  it('tell of bystanders apart, by their calls alone, run by run', () => {
    const calls = (...aloneMs: number[]): RunRecord['calls'] =>
      aloneMs.map((alone) => ({
        ...{ sandbox: 'bystander-1', turn: 0, tool: 'read', ms: 1000, aloneMs: alone, result: '{}' },
      }));
    const [trajectory] = task.plan.trajectories;
    const bystander = { ...trajectory, sandbox: 'bystander-1', bystander: true as const };
    const plan = { ...task.plan, trajectories: [trajectory, bystander] };
    const add = (of: RunRecord, ...aloneMs: number[]): RunRecord => ({
      ...of,
      calls: [...of.calls, ...calls(...aloneMs)],
    });
    const runs = [add(none, 10, 20), add(zip, 10, 20), add(none, 10, 30), add(zip, 10, 60)];
    const [, { bystanders, toolMs, tools }] = summarize({ ...task, plan }, runs).systems;
    expect(bystanders).toMatchObject({ sandboxes: 1, calls: 4, toolMs: { p50: 15 } });
    expect(bystanders?.slowdown.p50.min).toBe(1);
    expect(bystanders?.slowdown.p50.max).toBeCloseTo(35 / 20);
    // Not among those of agents.
    expect(toolMs.p99).toBeCloseTo(110);
    expect(Object.keys(tools)).toEqual(['load']);
    const table = benchTable(summarize({ ...task, plan }, runs));
    expect(table).toMatch(/Tools of bystanders.*\nnone.*\nagentzip +1\.38x \(1\.00–1\.75\)/);
    expect(Math.max(...table.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(summarize(task, [none, zip]).systems[1].bystanders).toBeNull();
  });

  it('make a report that fits 80 columns and says what counts', () => {
    const text = report(result);
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(text).toContain('8.00x');
    expect(text).toContain('10.00x');
    expect(text).toContain('1.10x');
  });
});

describe('the live table', () => {
  it('fits 80 columns', () => {
    const view = new RunView(
      'With AgentZip (run 10 of 20)',
      new Map([
        ['sandbox-1', 50],
        ['sandbox-64', 50],
      ]),
    );
    view.activity('sandbox-64', 49, 'tool', 'documents');
    const lines = table(view, 24);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(lines.join('\n')).toContain('documents');
  });
});

describe('a live table of many sandboxes', () => {
  it('is no higher than the screen', () => {
    const turns = new Map(Array.from({ length: 64 }, (_, i) => [`sandbox-${i + 1}`, 6]));
    const lines = table(new RunView('With AgentZip', turns), 22);
    expect(lines).toHaveLength(22);
    expect(lines.join('\n')).toContain('and 46 more');
  });

  it('says how much of all runs is over, and about how long the rest takes', () => {
    const view = new RunView(
      'With AgentZip (run 2 of 3)',
      new Map([
        ['a', 4],
        ['b', 4],
      ]),
    );
    expect(overall(view)).toBe('');
    view.session = { done: 2, of: 6, startedAt: 0 };
    view.activity('a', 2, 'waiting');
    view.activity('b', 2, 'tool');
    // Two runs and a half of six, in 10 minutes.
    expect(view.share()).toBeCloseTo(2.5 / 6);
    expect(overall(view, 600_000)).toBe(', 41% of 6 runs, about 14 min left');
    expect(overall(view, 60_000)).toBe(', 41% of 6 runs, about 84 s left');
    view.session = { done: 0, of: 1, startedAt: 0 };
    expect(overall(view, 600_000)).toBe('');
    for (const line of table(view, 22)) expect(line.length).toBeLessThanOrEqual(80);
  });
});

describe('the statistics', () => {
  it('hold each sample until the next one', () => {
    expect(timeAverage([0, 10, 30], [1, 2, 4], 0, 40)).toBe((10 + 40 + 40) / 40);
    expect(timeAverage([20], [5], 0, 40)).toBe(5);
  });

  it('interpolate between order statistics', () => {
    expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
    expect(quantile([7], 0.99)).toBe(7);
  });
});
