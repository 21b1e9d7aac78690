import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isAlive } from '../src/bench/processes.js';
import { Program } from '../src/bench/program.js';
import { Reception, Sandbox } from '../src/bench/sandbox.js';
import { EDITS, PACKAGES } from '../src/bench/workloads/node-plan.js';
import { node8, packagesFolder } from '../src/bench/workloads/node.js';
import type { ToolCall } from '../src/bench/workload.js';

/** Kept between runs, as the bench keeps it. */
const FILES = '/var/cache/agentzip-bench';
const INSTALL_TIMEOUT_MS = 300_000;
const options = { seed: 5, sandboxes: 8, turns: 12, timeScale: 1, files: FILES };

beforeAll(async () => {
  await node8.prepare(FILES, () => undefined, new AbortController().signal);
}, INSTALL_TIMEOUT_MS);

const published = (name: string, file: string): string => {
  const root = PACKAGES.subjects.find((subject) => subject.name === name)?.root;
  return [packagesFolder(FILES), 'node_modules', name, root, file].filter(Boolean).join('/');
};

describe('the plan of node-8', () => {
  it('is the same for the same options, and another for another seed', () => {
    const plan = node8.plan(options);
    expect(node8.plan(options)).toEqual(plan);
    expect(node8.plan({ ...options, seed: 6 })).not.toEqual(plan);
    expect(plan.trajectories).toHaveLength(8);
  });

  it('has attempts at a task that share most steps, but not all', () => {
    const { trajectories } = node8.plan(options);
    const texts = (i: number): string[] => trajectories[i].turns.map(({ calls }) => JSON.stringify(calls));
    for (const [a, b] of [
      [0, 2],
      [0, 4],
      [1, 3],
    ]) {
      const [first, second] = [texts(a), texts(b)];
      const same = first.filter((calls, turn) => calls === second[turn]).length;
      expect(same).toBeGreaterThanOrEqual(3);
      expect(same).toBeLessThan(12);
    }
  });

  it('ends every attempt with a review', () => {
    for (const { turns } of node8.plan(options).trajectories) {
      expect(turns).toHaveLength(12);
      expect(turns[11].calls.at(-1)).toEqual({ tool: 'review', args: {} });
    }
  });
});

describe('the edits of node-8', () => {
  it('are each for a place of their own, so that any of them apply in any order', () => {
    const taken = new Map<string, [number, number, string][]>();
    for (const { package: name, file, find } of [...EDITS.edits, ...EDITS.faults]) {
      const path = published(name, file);
      const text = readFileSync(path, 'utf8');
      expect(text.split(find).length - 1, `${find} in ${path}`).toBe(1);
      const at = text.indexOf(find);
      const others = taken.get(path) ?? [];
      for (const [from, to, other] of others) {
        expect(at >= to || at + find.length <= from, `${find} and ${other}`).toBe(true);
      }
      taken.set(path, [...others, [at, at + find.length, find]]);
    }
  });

  it('leave alone what renames change, and every file that a plan names exists', () => {
    for (const { name, files, tests, renames } of PACKAGES.subjects) {
      for (const file of [...files, ...tests, ...renames.map((one) => one.file)]) {
        expect(existsSync(published(name, file)), `${name}/${file}`).toBe(true);
      }
      for (const { find, replace } of [...EDITS.edits, ...EDITS.faults]) {
        for (const one of renames) expect(find + replace).not.toContain(one.name);
      }
    }
  });
});

/** A short trajectory with every tool. */
const inZod = (tool: string, args: object): ToolCall => ({ tool, args: { package: 'zod', ...args } });
const [fault] = EDITS.faults;
const CALLS: ToolCall[] = [
  inZod('list', {}),
  inZod('grep', { pattern: 'throw new \\w*Error' }),
  inZod('read', { file: 'helpers/util.ts' }),
  inZod('outline', { file: 'types.ts' }),
  inZod('references', { symbol: 'ParseStatus' }),
  inZod('edit', { file: fault.file, find: fault.find, replace: fault.replace }),
  inZod('typecheck', { files: ['ZodError.ts'] }),
  inZod('edit', { file: fault.file, find: fault.replace, replace: fault.find }),
  inZod('rename', { file: 'helpers/parseUtil.ts', symbol: 'makeIssue', to: 'issueOf' }),
  inZod('typecheck', { files: [] }),
  inZod('lint', { file: 'helpers/util.ts' }),
  inZod('test', { files: ['tests/tuple.test.ts', 'tests/error.test.ts'] }),
  inZod('script', { seed: 3 }),
  { tool: 'diff', args: {} },
  { tool: 'review', args: {} },
];

describe('two sandboxes of node-8', () => {
  const folder = mkdtempSync(`${tmpdir()}/node-8-`);
  const programs: Program[] = [];
  const sandboxes: Sandbox[] = [];
  let reception: Reception;
  let results: string[][];

  const start = async (id: string): Promise<Sandbox> => {
    const [template] = node8.plan(options).templates;
    const program = await Program.start(template, `${folder}/home-${id}`);
    programs.push(program);
    const own = `${folder}/box-${id}`;
    mkdirSync(own);
    const arrival = reception.expect(id);
    program.become(id, { socket: reception.path, procs: `${folder}/procs-${id}`, folder: own });
    const { socket, lines, pid } = await arrival;
    const sandbox = new Sandbox(id, pid, folder, own, socket, lines);
    sandboxes.push(sandbox);
    return sandbox;
  };

  beforeAll(async () => {
    reception = await Reception.listen(`${folder}/s`);
    results = await Promise.all(
      ['a', 'b'].map(async (id) => {
        const sandbox = await start(id);
        const all: string[] = [];
        for (const call of CALLS) all.push(await sandbox.call(call));
        return all;
      }),
    );
  }, INSTALL_TIMEOUT_MS);

  afterAll(async () => {
    for (const program of programs) await program.end();
    reception.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const resultOf = (tool: string, nth = 0): Record<string, unknown> => {
    const at = CALLS.flatMap((call, i) => (call.tool === tool ? [i] : []))[nth];
    return JSON.parse(results[0][at]) as Record<string, unknown>;
  };

  it('give identical results that name no path of this machine', () => {
    expect(results[1]).toEqual(results[0]);
    expect(results[0].join('\n')).not.toContain(folder);
    expect(results[0].join('\n')).not.toContain(FILES);
  });

  it('find the fault, and nothing once it is taken back', () => {
    expect(resultOf('typecheck')).toMatchObject({ errors: 1, first: [expect.stringContaining('TS2355')] });
    expect(resultOf('typecheck', 1)).toMatchObject({ errors: 0 });
  });

  it("run the package's own tests on the changed sources", () => {
    expect(resultOf('rename')).toEqual({ places: 5, files: ['zod/helpers/parseUtil.ts', 'zod/types.ts'] });
    expect(resultOf('test')).toMatchObject({ code: 0, failed: 0 });
    expect(resultOf('test').tests).toBeGreaterThan(20);
    expect(resultOf('script')).toMatchObject({ code: 0, reason: '' });
    expect(resultOf('diff')).toMatchObject({ files: 2 });
  });

  it('end when the host hangs up', async () => {
    for (const sandbox of sandboxes) {
      expect(isAlive(sandbox.pid)).toBe(true);
      expect(await sandbox.end()).toBe(true);
    }
  });
});
