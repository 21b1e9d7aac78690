import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runFanOut } from '../src/bench/run.js';
import { NoSystem } from '../src/bench/systems/none.js';
import { RunView } from '../src/bench/view.js';
import { packageRoot } from '../src/paths.js';
import type { Plan, ToolCall, Trajectory, Workload } from '../src/bench/workload.js';
import { fresh } from '../src/bench/workloads/fresh.js';
import { interpreter, planInterpreters } from '../src/bench/workloads/interpreter.js';
import { mixedTenants, planMixedTenants } from '../src/bench/workloads/mixed-tenants.js';

const SEED = 3;
const signal = new AbortController().signal;
const options = { seed: SEED, sandboxes: 8, turns: 9, timeScale: 1, files: '/files' };
const callsOf = ({ turns }: Trajectory): ToolCall[] => turns.flatMap(({ calls }) => calls);

describe.each([interpreter, fresh, mixedTenants])('the plan of $name', (workload: Workload) => {
  const plan = (changes: Partial<typeof options> = {}): Plan => workload.plan({ ...options, ...changes });

  it('is the same for the same options and another for another seed', () => {
    expect(plan()).toEqual(plan());
    expect(plan({ seed: 4 }).trajectories).not.toEqual(plan().trajectories);
  });

  it('does not change for a sandbox when there are more of them', () => {
    expect(plan({ sandboxes: 12 }).trajectories.slice(0, 8)).toEqual(plan().trajectories);
  });

  it('stretches waits by the time scale and leaves the calls alone', () => {
    const [slow, fast] = [plan().trajectories[5], plan({ timeScale: 0.5 }).trajectories[5]];
    expect(fast.startMs).toBeCloseTo(slow.startMs / 2);
    expect(fast.turns[3].firstTokenMs).toBeCloseTo(slow.turns[3].firstTokenMs / 2);
    expect(fast.turns[3].streamMs).toBeCloseTo(slow.turns[3].streamMs / 2);
    expect(callsOf(fast)).toEqual(callsOf(slow));
  });

  it('fetches data first, predicts only what was trained, and reads everything back at the end', () => {
    for (const trajectory of plan().trajectories) {
      const tools = callsOf(trajectory).map(({ tool }) => tool);
      expect(tools[0]).toBe('fetch');
      expect(tools.at(-1)).toBe('review');
      if (tools.includes('predict')) expect(tools.indexOf('train')).toBeLessThan(tools.indexOf('predict'));
      expect(trajectory.turns).toHaveLength(9);
    }
    expect(plan({ turns: 1 }).trajectories[0].turns).toHaveLength(1);
  });

  it('names templates of the same tenant only', () => {
    const { templates, trajectories } = plan();
    for (const { template, tenant } of trajectories)
      expect(templates.find(({ id }) => id === template)?.tenant).toBe(tenant);
  });
});

describe('the sandboxes', () => {
  it('of one platform have data and steps of their own', () => {
    const calls = interpreter.plan(options).trajectories.map(callsOf);
    expect(new Set(calls.map(([fetch]) => fetch.args.seed)).size).toBe(8);
    expect(new Set(calls.map((of) => of.map(({ tool }) => tool).join())).size).toBe(8);
    expect(fresh.plan(options).trajectories).toEqual(interpreter.plan(options).trajectories);
    expect(fresh.plan(options).templates[0].launch).toBe('fresh');
    expect(fresh.plan(options).templates[0].env).not.toHaveProperty('PYTHONHASHSEED');
  });

  it('of two tenants look at the same data, each in its own tenant', () => {
    const { trajectories } = mixedTenants.plan(options);
    expect(trajectories.map(({ tenant }) => tenant).slice(0, 4)).toEqual([
      'analysts',
      'clerks',
      'analysts',
      'clerks',
    ]);
    for (let i = 0; i < 8; i += 2)
      expect(callsOf(trajectories[i]).slice(0, 2)).toEqual(callsOf(trajectories[i + 1]).slice(0, 2));
  });
});

describe('a session', () => {
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync('/var/tmp/agentzip-test-');
    await interpreter.prepare(`${folder}/files`, () => undefined, signal);
  }, 180_000);

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** What each sandbox of `plan` answered, call by call. */
  const run = async (plan: Plan): Promise<Map<string, string[]>> => {
    const ids = plan.trajectories.map(({ sandbox }) => sandbox);
    const view = new RunView(
      'test',
      new Map(plan.trajectories.map(({ sandbox, turns }) => [sandbox, turns.length])),
    );
    const { calls } = await runFanOut({
      make: () => new NoSystem(),
      ...{ plan, seed: SEED, folder, view, signal },
    });
    const of = (id: string): string[] =>
      calls.filter(({ sandbox }) => sandbox === id).map(({ tool, result }) => `${tool} ${result}`);
    return new Map(ids.map((id) => [id, of(id)]));
  };

  /** The first trajectory of `of`, in a fork and in a fresh process, with unlike seeds for string hashes. */
  const bothWays = (of: Plan): Plan => {
    const [template] = of.templates;
    const ways = (['fork', 'fresh'] as const).map((launch, i) => ({
      template: { ...template, id: launch, launch, env: { ...template.env, PYTHONHASHSEED: `${i + 1}` } },
      trajectory: { ...of.trajectories[0], sandbox: `sandbox-${launch}`, template: launch, startMs: 0 },
    }));
    return { templates: ways.map((way) => way.template), trajectories: ways.map((way) => way.trajectory) };
  };

  const small = { ...options, turns: 11, rows: 2000, timeScale: 0 };

  it.each([
    ['data analysis', (files: string) => planInterpreters({ ...small, files }, 'fork')],
    [
      'documents',
      (files: string) => {
        const { templates, trajectories } = planMixedTenants({ ...small, files });
        return { templates: templates.slice(1), trajectories: trajectories.slice(1, 2) };
      },
    ],
  ])(
    'of %s answers alike in a fork and in a fresh process with other string hashes',
    async (_, plan) => {
      const answers = await run(bothWays(plan(`${folder}/files`)));
      const [forked, started] = answers.values();
      expect(forked.length).toBeGreaterThan(18);
      expect(new Set(forked.map((text) => text.split(' ')[0])).size).toBeGreaterThan(8);
      expect(started).toEqual(forked);
    },
    120_000,
  );

  it('has another digest when a bit of what it keeps is another', async () => {
    const program = `${packageRoot}/test/fixtures/flip_bits.py`;
    const { stdout } = await promisify(execFile)('/usr/bin/python3', ['-B', '-s', program]);
    const lines = stdout.trim().split('\n');
    expect(lines).toHaveLength(14);
    for (const line of lines) expect(line).toMatch(/^\w+ True True$/);
  }, 60_000);
});
