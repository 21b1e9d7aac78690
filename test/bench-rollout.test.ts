import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { filter } from '../src/bench/workloads/filter.js';
import { PROJECTS } from '../src/bench/workloads/projects/project.js';
import { prepareProjects, projectRoot } from '../src/bench/workloads/projects/source.js';
import { rollout } from '../src/bench/workloads/rollout.js';
import type { Plan, ToolCall, Workload } from '../src/bench/workload.js';

const FILES = '/var/cache/agentzip-bench';

const plan = (workload: Workload, seed: number, turns = workload.turns): Plan =>
  workload.plan({ seed, sandboxes: workload.sandboxes, turns, timeScale: 1, files: FILES });

const callsOf = (planned: Plan): ToolCall[][] =>
  planned.trajectories.map(({ turns }) => turns.flatMap(({ calls }) => calls));

/** Share of the turns' first calls in which an attempt does what most attempts do. */
function likeness(planned: Plan): number {
  const firsts = planned.trajectories.map(({ turns }) => turns.map(({ calls }) => JSON.stringify(calls[0])));
  const shares = firsts[0].map((_, turn) => {
    const counts = new Map<string, number>();
    for (const attempt of firsts) counts.set(attempt[turn], (counts.get(attempt[turn]) ?? 0) + 1);
    return Math.max(...counts.values()) / firsts.length;
  });
  return shares.reduce((sum, share) => sum + share, 0) / shares.length;
}

describe('the plan of coding agents', () => {
  const seeds = PROJECTS.map((_, index) => index + 1);

  it('is the same for the same seed, and takes the ten projects in turn', () => {
    expect(plan(rollout, 3)).toEqual(plan(rollout, 3));
    expect(plan(rollout, 3)).not.toEqual(plan(rollout, 3 + PROJECTS.length));
    const projects = seeds.map((seed) => plan(rollout, seed).templates[0].id);
    expect(new Set(projects).size).toBe(10);
  });

  it('shares most steps in a rollout and fewer in generate-and-filter', () => {
    for (const seed of seeds) {
      expect(likeness(plan(rollout, seed))).toBeGreaterThan(0.6);
      expect(likeness(plan(rollout, seed))).toBeLessThan(0.95);
    }
    const mean = (workload: Workload): number =>
      seeds.reduce((sum, seed) => sum + likeness(plan(workload, seed)), 0) / seeds.length;
    expect(mean(filter)).toBeLessThan(mean(rollout) - 0.05);
  });

  it('ends with the changes, the tests and a review', () => {
    for (const workload of [rollout, filter])
      for (const calls of callsOf(plan(workload, 5)))
        expect(calls.slice(-3).map(({ tool }) => tool)).toEqual(['diff', 'test', 'review']);
  });
});

describe('coding agents', () => {
  const children: ChildProcess[] = [];
  const servers: Server[] = [];
  let folder = '';

  beforeAll(async () => {
    await prepareProjects(FILES, PROJECTS, () => undefined, new AbortController().signal);
    folder = mkdtempSync('/var/tmp/agentzip-rollout-test-');
  }, 600_000);
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    for (const server of servers.splice(0)) server.close();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(PROJECTS.map(({ name }) => name))('find the places to change in %s as it is', (name) => {
    const seed = PROJECTS.findIndex((project) => project.name === name) + 1;
    const root = `${projectRoot(FILES, PROJECTS[seed - 1])}/repo`;
    for (const calls of [...callsOf(plan(rollout, seed)), ...callsOf(plan(filter, seed, 60))]) {
      const texts = new Map<string, string>();
      for (const { tool, args } of calls) {
        if (tool !== 'edit') continue;
        const { path, old, new: text } = args as { path: string; old: string; new: string };
        const parts = (texts.get(path) ?? readFileSync(`${root}/${path}`, 'utf8')).split(old);
        expect(parts, `${path}: ${old}`).toHaveLength(2);
        texts.set(path, parts.join(text));
      }
    }
  });

  /** Runs the calls in a sandbox forked from a template of its own. */
  async function results(planned: Plan, calls: readonly ToolCall[], name: string): Promise<string[]> {
    const [{ command, env }] = planned.templates;
    const home = mkdtempSync(`${folder}/${name}-`);
    const child = spawn(command[0], [...command.slice(1), String(process.pid)], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { PATH: '/usr/bin:/bin', HOME: home, TMPDIR: home, ...env },
    });
    children.push(child);
    const socket = `${home}/s`;
    const server = createServer().listen(socket);
    servers.push(server);
    const guest = new Promise<import('node:net').Socket>((resolve) => server.once('connection', resolve));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    expect(JSON.parse((await lines.next()).value as string)).toHaveProperty('ready');
    const order = { fork: name, socket, procs: '/dev/null', folder: mkdtempSync(`${home}/box-`) };
    child.stdin.write(`${JSON.stringify(order)}\n`);
    const connection = await guest;
    const answers = createInterface({ input: connection })[Symbol.asyncIterator]();
    await answers.next();
    const found: string[] = [];
    for (const call of calls) {
      connection.write(`${JSON.stringify(call)}\n`);
      found.push((await answers.next()).value as string);
    }
    connection.destroy();
    return found;
  }

  it('give identical results twice, from real edits and real tests', async () => {
    const planned = plan(rollout, PROJECTS.findIndex(({ name }) => name === 'toolz') + 1, 9);
    const calls = callsOf(planned)[1];
    const first = await results(planned, calls, 'first');
    const second = await results(planned, calls, 'second');
    expect(second).toEqual(first);
    const parsed = first.map((line) => JSON.parse(line) as { result?: Record<string, unknown> });
    expect(parsed.every(({ result }) => result !== undefined)).toBe(true);
    const suite = parsed.at(-2)?.result as { outcomes: { passed?: number } };
    expect(suite.outcomes.passed).toBeGreaterThan(50);
    const diff = parsed.at(-3)?.result as { lines: string[] };
    expect(diff.lines.some((line) => line.startsWith('+++ b/toolz/'))).toBe(true);
  }, 120_000);
});
