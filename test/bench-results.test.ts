import { closeSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { leftCgroups, memoryMount, pidsOf } from '../src/bench/cgroups.js';
import { runDemo } from '../src/bench/demo.js';
import { firstDifference, type RunRecord } from '../src/bench/record.js';

/** The last of 4000 rows; the template warmed up on fewer, so that no sandbox starts with it. */
const PATTERN = Buffer.from('\n103999,');

/** Changes one digit of the CSV text a session keeps on its heap, in every copy there is. True when it was found. */
function corrupt(pid: number): boolean {
  let found = false;
  const heap = /^(\w+)-(\w+) .*\[heap\]$/m.exec(readFileSync(`/proc/${pid}/maps`, 'latin1'));
  if (heap === null) return false;
  const [from, to] = [parseInt(heap[1], 16), parseInt(heap[2], 16)];
  const mem = openSync(`/proc/${pid}/mem`, 'r+');
  const bytes = Buffer.alloc(to - from);
  const got = readSync(mem, bytes, 0, bytes.length, from);
  for (let at = bytes.indexOf(PATTERN); at >= 0 && at < got; at = bytes.indexOf(PATTERN, at + 1)) {
    writeSync(mem, '7', from + at + PATTERN.length - 2);
    found = true;
  }
  closeSync(mem);
  return found;
}

describe('the results of two runs', () => {
  it('differ when one byte of a sandbox changed while its agent waited', async () => {
    const lines: string[] = [];
    const screen = { write: (text: string) => lines.push(text) };
    const signal = new AbortController().signal;
    let corrupted = 0;
    const timer = setInterval(() => {
      // Twice: the first time may be in the middle of the load, on a copy that nobody reads again.
      if (corrupted === 2 || !lines.join('').includes('run 2 of 2')) return;
      const cgroup = `${memoryMount().path}/agentzip-bench-${process.pid}/sandbox-1`;
      if (pidsOf(cgroup).slice(0, 1).some(corrupt)) corrupted++;
    }, 400);
    const demo = runDemo({
      ...{ sandboxes: 1, turns: 3, seed: 3, runs: 2, rows: 4000, timeScale: 0.2 },
      ...{ systems: ['none'], screen, signal },
    });
    try {
      await expect(demo).rejects.toMatchObject({ code: 'AZ_RESULTS_DIFFER' });
    } finally {
      clearInterval(timer);
    }
    expect(corrupted).toBeGreaterThan(0);
    expect(leftCgroups()).toEqual([]);
  }, 90_000);

  it('are compared call by call, in the order of each sandbox', () => {
    const call = (sandbox: string, turn: number, result: string) => ({
      sandbox,
      turn,
      tool: 'text',
      ms: 1,
      aloneMs: 1,
      result,
    });
    const run = (calls: RunRecord['calls']): RunRecord => ({
      ...{ system: 'none', from: 0, to: 1, samples: [], waits: [], accounts: [], served: [], fullest: null },
      ...{ cpu: { tools: 0, controller: 0, pager: 0, kernel: 0 }, busyShare: 0, notes: [], disturbances: [] },
      calls,
    });
    const one = run([call('sandbox-1', 0, 'a'), call('sandbox-2', 0, 'b')]);
    expect(firstDifference(one, run([call('sandbox-2', 0, 'b'), call('sandbox-1', 0, 'a')]))).toBeNull();
    expect(firstDifference(one, run([call('sandbox-1', 0, 'a'), call('sandbox-2', 0, 'c')]))).toContain(
      'gave c',
    );
    expect(firstDifference(one, run([call('sandbox-1', 0, 'a')]))).toContain('not called');
  });
});
