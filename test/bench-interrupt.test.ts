import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { memoryMount } from '../src/bench/cgroups.js';
import { swapAreas } from '../src/memory/swap.js';
import { packageRoot } from '../src/paths.js';

const MAIN = `${packageRoot}/dist/cli/main.js`;

/** Both begin with a run without AgentZip. That of the demo is long enough to be stopped in it. */
const DEMO = ['demo', '--sandboxes', '2', '--turns', '9'];
const BENCH = ['bench', '--sandboxes', '1', '--turns', '4', '--time-scale', '0.5', '--files', '/var/tmp'];

/** Processes of a demo or bench: its templates, and their sandboxes, which have the same arguments. */
const programsOf = (demo: number): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(`template.py\0tools\0${demo}\0`)
      );
    } catch {
      return false;
    }
  });
const cgroupsOf = (demo: number): string[] =>
  [memoryMount().path, '/sys/fs/cgroup/cpuacct']
    .map((mount) => `${mount}/agentzip-bench-${demo}`)
    .filter((path) => existsSync(path));
const foldersOf = (demo: number): string[] =>
  readdirSync('/var/tmp').filter((name) => name.startsWith(`agentzip-bench-${demo}-`));

interface Demo {
  pid: number;
  output(): string;
  /** As `demo | head` does when it has seen enough. */
  closeOutput(): void;
  exit: Promise<unknown[]>;
}

describe('a demo or bench that is interrupted', () => {
  let child: ChildProcess | undefined;
  afterEach(() => {
    child?.kill('SIGTERM');
  });

  /** Starts it and waits until its sandboxes run; the first half runs without AgentZip. */
  const start = async (command: string[] = DEMO): Promise<Demo> => {
    const demo = spawn(process.execPath, [MAIN, ...command], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = demo;
    let output = '';
    for (const stream of [demo.stdout, demo.stderr]) stream.on('data', (chunk) => (output += chunk));
    const exit = once(demo, 'exit');
    const pid = demo.pid ?? 0;
    const programs = command === DEMO ? 3 : 2;
    for (let i = 0; i < 150 && programsOf(pid).length < programs; i++) await sleep(100);
    expect(programsOf(pid)).toHaveLength(programs);
    return { pid, output: () => output, closeOutput: () => demo.stdout.destroy(), exit };
  };

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'by %s, twice, leaves nothing',
    async (signal) => {
      const { pid, output, exit } = await start();
      process.kill(pid, signal);
      await sleep(20);
      process.kill(pid, signal);
      expect(await exit).toEqual([1, null]);
      expect(output()).toContain('AZ_INTERRUPTED');
      expect(programsOf(pid)).toEqual([]);
      expect(cgroupsOf(pid)).toEqual([]);
      expect(foldersOf(pid)).toEqual([]);
    },
    90_000,
  );

  it('by the end of who reads it leaves nothing', async () => {
    const { pid, output, closeOutput, exit } = await start();
    closeOutput();
    expect(await exit).toEqual([1, null]);
    expect(output()).toContain('a closed output');
    expect(programsOf(pid)).toEqual([]);
    expect(cgroupsOf(pid)).toEqual([]);
    expect(foldersOf(pid)).toEqual([]);
  }, 90_000);

  it('by SIGTERM while pages are out leaves nothing', async () => {
    const swaps = (): string[] => swapAreas().map(({ path }) => path);
    const before = swaps();
    const { pid, output, exit } = await start(BENCH);
    const out = (): boolean => /With AgentZip.*: running.* pool [1-9]/.test(output());
    for (let i = 0; i < 900 && !out(); i++) await sleep(100);
    expect(output()).toMatch(/With AgentZip.*: running.* pool [1-9]/);
    process.kill(pid, 'SIGTERM');
    expect(await exit).toEqual([1, null]);
    expect(output()).toContain('AZ_INTERRUPTED');
    expect(output()).not.toContain('AZ_HOST_NOT_CLEAN');
    expect(programsOf(pid)).toEqual([]);
    expect(cgroupsOf(pid)).toEqual([]);
    expect(foldersOf(pid)).toEqual([]);
    expect(swaps()).toEqual(before);
  }, 150_000);

  it('by SIGKILL leaves no process, and the next one removes the rest', async () => {
    const first = await start();
    process.kill(first.pid, 'SIGKILL');
    await first.exit;
    for (let i = 0; i < 50 && programsOf(first.pid).length > 0; i++) await sleep(50);
    expect(programsOf(first.pid)).toEqual([]);
    expect(cgroupsOf(first.pid)).not.toEqual([]);
    const second = await start();
    expect(cgroupsOf(first.pid)).toEqual([]);
    expect(foldersOf(first.pid)).toEqual([]);
    process.kill(second.pid, 'SIGTERM');
    await second.exit;
    expect(cgroupsOf(second.pid)).toEqual([]);
  }, 120_000);
});
