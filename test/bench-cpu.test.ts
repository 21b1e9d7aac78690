import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { machineTime, TaskTimes } from '../src/bench/machine.js';
import { RunMeter } from '../src/bench/run-meter.js';
import { SandboxCpu } from '../src/bench/sandbox-cpu.js';
import { NoSystem } from '../src/bench/systems/none.js';
import { agent, fanOut, smallTemplate } from './support/fan-out.js';

const PROGRAM = `
import sys, time
while time.process_time() < float(sys.argv[1]): pass
print("done", flush=True)
sys.stdin.read()
`;

describe('the account of processor time', () => {
  let child: ChildProcess | undefined;
  afterEach(() => {
    child?.kill('SIGKILL');
  });

  /** Starts a process that uses `seconds` of a processor, and waits until it has; it goes on living. */
  const burn = async (seconds: number): Promise<number> => {
    const args = ['-S', '-c', PROGRAM, String(seconds)];
    const burner = spawn('/usr/bin/python3', args, { stdio: ['pipe', 'pipe', 'inherit'] });
    child = burner;
    await once(burner.stdout, 'data');
    return burner.pid ?? 0;
  };

  it('of a sandbox has its children in it, those that nobody waits for too', async () => {
    const template = smallTemplate('template', 'fork', 'acme');
    const calls = [{ tool: 'burn', args: { own: 0.5, child: 0.4, orphan: 0.3 } }];
    const { cpu, busyShare } = await fanOut({
      templates: [template],
      trajectories: [agent('box-1', template, calls)],
    });
    expect(cpu.tools).toBeGreaterThan(1.15);
    expect(cpu.tools).toBeLessThan(1.7); // two interpreters start, and a shell
    expect(cpu).toMatchObject({ controller: 0, pager: 0 });
    expect(cpu.kernel).toBeGreaterThanOrEqual(0);
    expect(busyShare).toBeGreaterThan(0);
    expect(busyShare).toBeLessThanOrEqual(1);
  });

  it('finds what a task used since the first look, also one that is new', async () => {
    const tasks = new TaskTimes();
    tasks.look();
    const pid = await burn(0.5);
    tasks.look();
    const found = tasks.times().find((task) => task.pid === pid);
    expect(found).toMatchObject({ name: 'python3', kernel: false });
    expect(Math.abs((found?.seconds ?? 0) - 0.5)).toBeLessThan(0.1);
    const threads = tasks.times().filter((task) => task.kernel);
    expect(threads.map(({ name }) => name)).toContain('kthreadd');
    expect(threads.map(({ pid: of }) => of)).not.toContain(process.pid);
  });

  it('of the machine grows with what is used', async () => {
    const before = machineTime();
    await burn(0.5);
    const after = machineTime();
    expect(after.tasks - before.tasks).toBeGreaterThan(0.4);
  });

  it('tells of other processes that used the processor during a run', async () => {
    const sandboxes = SandboxCpu.create();
    try {
      const folder = '/nowhere/of/a/run';
      const meter = await RunMeter.start({ system: new NoSystem(), sandboxes, templates: [], folder });
      await burn(1);
      const { disturbances } = await meter.finish();
      expect(disturbances.join()).toMatch(/other processes used \d+ % of one of \d+ processors/);
      // It is a child of this process, so it counts as one of ours and is not named.
      expect(disturbances.join()).not.toContain(`(pid ${child?.pid})`);
    } finally {
      await sandboxes.end();
    }
  });
});
