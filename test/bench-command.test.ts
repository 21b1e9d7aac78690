import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Ajv } from 'ajv';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type BenchOptions, conclude, runBench } from '../src/bench/bench.js';
import { leftCgroups } from '../src/bench/cgroups.js';
import type { RunRecord } from '../src/bench/record.js';
import type { BenchResult } from '../src/bench/result.js';
import { SYSTEM_NAMES, type SystemEntry } from '../src/bench/system.js';
import { SYSTEMS } from '../src/bench/systems/table.js';
import { planDemo } from '../src/bench/workloads/demo.js';
import { WORKLOADS } from '../src/bench/workloads/table.js';

const schema = JSON.parse(readFileSync(new URL('../src/bench/bench.schema.json', import.meta.url), 'utf8'));
const validate = new Ajv({ allowUnionTypes: true }).compile(schema);

let folder = '';
let printed: string[] = [];
beforeEach(() => {
  folder = mkdtempSync('/var/tmp/agentzip-test-bench-');
  printed = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const screen = { write: (text: string) => printed.push(text) };
const options = (given: Partial<BenchOptions>): BenchOptions => ({
  ...{ workload: 'demo', systems: ['none'], runs: 1, sandboxes: 1, turns: 2, seed: 3, timeScale: 0.05 },
  ...{ files: `${folder}/files`, command: 'agentzip bench', screen, signal: new AbortController().signal },
  ...given,
});
const written = (file: string): BenchResult => JSON.parse(readFileSync(`${folder}/${file}`, 'utf8'));

describe('agentzip bench', () => {
  it('writes results that validate, with what the run was and what disturbed it', async () => {
    const result = await runBench(options({ json: `${folder}/x.json`, report: `${folder}/x.html` }));
    expect(validate(written('x.json')), JSON.stringify(validate.errors)).toBe(true);
    expect(written('x.json')).toEqual(JSON.parse(JSON.stringify(result)));
    expect(result.deviations).toEqual([
      '1 sandboxes instead of 8',
      '2 turns instead of 6',
      'every wait is multiplied by 0.05',
      expect.stringContaining('1 run(s)'),
    ]);
    const [none] = result.systems;
    const calls = Object.values(none.tools).reduce((sum, tool) => sum + tool.calls, 0);
    expect(calls).toBe(result.plan.calls);
    expect(none.toolLatencyMs[50]).toBeCloseTo(none.toolMs.p50);
    expect(none.cpuSeconds.tools.median).toBeGreaterThan(0);
    expect(none.timeline.owned).toHaveLength(none.timeline.seconds.length);
    expect(readFileSync(`${folder}/x.html`, 'utf8')).toContain('<html');
    expect(printed.join('')).toContain('results identical');
    expect(printed.join('')).toContain('host clean');
    expect(leftCgroups()).toEqual([]);
  }, 90_000);

  it.each([
    ['a workload', { workload: 'sleep' }, `allowed: ${WORKLOADS.map(({ name }) => name).join(', ')}`],
    ['a system', { systems: ['agentzip', 'magic'] }, `allowed: ${SYSTEM_NAMES.join(', ')}`],
    ['no name', { systems: [''] }, 'system (empty) is not known'],
    ['more memory than there is', { sandboxes: 1e6 }, 'MiB is available'],
    ['a file that can not be written', { json: '/nowhere/x.json' }, '--json /nowhere/x.json'],
    ['a page that can not be written', { report: '/nowhere/x.html' }, '--report /nowhere/x.html'],
    ['a folder that can not be made', { files: '/dev/null/x' }, '--files /dev/null/x'],
  ])('refuses %s before anything starts', async (_, given, words) => {
    await expect(runBench(options(given))).rejects.toMatchObject({
      code: 'AZ_USAGE',
      message: expect.stringContaining(words),
      remedy: 'see agentzip bench --help',
    });
  });

  it('refuses a system this host can not run before anything starts', async () => {
    const lacks = vi.spyOn(SYSTEMS.ksm as Required<SystemEntry>, 'requires').mockReturnValue('it has no KSM');
    await expect(runBench(options({ systems: ['ksm'] }))).rejects.toMatchObject({
      code: 'AZ_USAGE',
      message: expect.stringContaining('it has no KSM'),
    });
    lacks.mockRestore();
  });

  it('knows every system by its own name', () => {
    const cgroups = null as never; // none of them touches it before it starts
    for (const name of SYSTEM_NAMES) {
      expect(SYSTEMS[name].make({ folder, log: `${folder}/log`, cgroups }).name).toBe(name);
    }
  });
});

describe('the judgement of a bench', () => {
  const run = (system: RunRecord['system'], result: string): RunRecord => ({
    ...{ system, from: 0, to: 1000, accounts: [], served: [], fullest: null, busyShare: 0.5 },
    ...{ notes: [], disturbances: [], cpu: { tools: 1, controller: 0, pager: 0, kernel: 0 } },
    samples: [{ at: 0, owned: 4096, swapped: 0, pool: 0, base: 0, overhead: 0, swapCache: 0 }],
    waits: [{ sandbox: 'sandbox-1', turn: 0, waitedMs: 10, owned: 4096, pool: 0 }],
    calls: [{ sandbox: 'sandbox-1', turn: 0, tool: 'load', ms: 10, aloneMs: 9, result }],
  });
  const task = {
    ...{ workload: 'demo', sandboxes: 1, turns: 1, seed: 9, timeScale: 1, command: 'agentzip bench' },
    ...{ plan: planDemo({ sandboxes: 1, turns: 1, seed: 9 }), deviations: [], disturbances: [] },
  };

  it('fails a run of any system in which one byte differs, after the files are written', () => {
    const runs = [run('none', '"aa"'), run('agentzip', '"aa"'), run('agentzip-no-delta', '"ab"')];
    const judge = (): unknown => conclude(task, runs, { json: `${folder}/y.json` }, screen);
    expect(judge).toThrow(expect.objectContaining({ code: 'AZ_RESULTS_DIFFER' }));
    expect(judge).toThrow('agentzip-no-delta: 0 sandbox-1 turn 1 load gave "ab", not "aa"');
    const { systems } = written('y.json');
    expect(systems.map((system) => system.resultsIdentical)).toEqual([true, true, false]);
    expect(printed.join('')).toMatch(/agentzip-no-delta .* NO\n/);
    expect(printed.join('')).not.toContain('results identical');
  });

  it('passes runs whose answers are the same', () => {
    const runs = [run('none', '"aa"'), run('agentzip', '"aa"')];
    expect(conclude(task, runs, {}, screen).systems).toHaveLength(2);
    expect(printed.join('')).toContain('results identical');
  });

  it('prints tables of at most 80 columns', () => {
    const runs = SYSTEM_NAMES.map((name) => run(name, '"aa"'));
    conclude(task, runs, {}, screen);
    const widths = printed
      .join('')
      .split('\n')
      .map((line) => line.length);
    expect(Math.max(...widths)).toBeLessThanOrEqual(80);
  });
});
