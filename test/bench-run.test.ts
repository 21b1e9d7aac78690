import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { leftCgroups } from '../src/bench/cgroups.js';
import { runDemo } from '../src/bench/demo.js';
import { leftOnHost } from '../src/bench/host.js';

const options = {
  ...{ sandboxes: 2, turns: 2, seed: 7, rows: 4000, timeScale: 0.1 },
  systems: ['none'] as const,
  signal: new AbortController().signal,
};

describe('a run without AgentZip', () => {
  it('gives identical results twice and leaves nothing behind', async () => {
    const folders = (): string[] =>
      readdirSync('/var/tmp').filter((name) => name.startsWith(`agentzip-bench-${process.pid}-`));
    const before = folders();
    const lines: string[] = [];
    const screen = { write: (text: string) => lines.push(text) };
    const result = await runDemo({ ...options, runs: 2, screen });
    expect(lines.join('')).toContain('results identical');
    expect(lines.join('')).toContain('host clean');
    const [none] = result.systems;
    expect(none).toMatchObject({ system: 'none', runs: 2, resultsIdentical: true });
    expect(none.memory.ownedMean.median).toBeGreaterThan(2 * 2 ** 20);
    expect(none.memory.poolMean.max).toBe(0);
    expect(none.toolMs.p50).toBeGreaterThan(0);
    expect(folders()).toEqual(before);
    expect(leftCgroups()).toEqual([]);
    expect(leftOnHost(`/var/tmp/agentzip-bench-${process.pid}-`)).toEqual([]);
  }, 90_000);

  it('ends in order when it is stopped in the middle', async () => {
    const controller = new AbortController();
    const reason = new Error('stop');
    const screen = { write: () => undefined };
    const demo = runDemo({ ...options, turns: 20, timeScale: 1, runs: 1, screen, signal: controller.signal });
    setTimeout(() => controller.abort(reason), 4000);
    await expect(demo).rejects.toBe(reason);
    expect(leftCgroups()).toEqual([]);
    const templates = readdirSync('/proc').filter((pid) => {
      try {
        return (
          /^\d+$/.test(pid) &&
          readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(`template.py\0tools\0${process.pid}\0`)
        );
      } catch {
        return false;
      }
    });
    expect(templates).toEqual([]);
  }, 90_000);

  it('names the tool that failed', async () => {
    const screen = { write: () => undefined };
    const demo = runDemo({ ...options, rows: -1, runs: 1, screen });
    await expect(demo).rejects.toMatchObject({
      code: 'AZ_WORKLOAD_FAILED',
      message: expect.stringContaining('load in sandbox-'),
    });
    expect(leftCgroups()).toEqual([]);
  }, 90_000);

  it('refuses a fan-out that does not fit into memory', async () => {
    const screen = { write: () => undefined };
    const demo = runDemo({ ...options, sandboxes: 1e6, runs: 1, screen });
    await expect(demo).rejects.toMatchObject({ code: 'AZ_USAGE', message: expect.stringContaining('MiB') });
  });

  it('refuses a file it can not write before anything starts', async () => {
    const screen = { write: () => undefined };
    const demo = runDemo({ ...options, runs: 1, screen, json: '/nowhere/out.json' });
    await expect(demo).rejects.toMatchObject({
      code: 'AZ_USAGE',
      message: expect.stringContaining('--json'),
    });
  });
});
