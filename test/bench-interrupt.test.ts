import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { memoryMount } from '../src/bench/cgroups.js';
import { packageRoot } from '../src/paths.js';

const MAIN = `${packageRoot}/dist/cli/main.js`;

/** Processes of a demo: its templates, and their sandboxes, which have the same arguments. */
const programsOf = (demo: number): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(`template.py\0${demo}\0`)
      );
    } catch {
      return false;
    }
  });
const cgroupOf = (demo: number): string => `${memoryMount().path}/agentzip-demo-${demo}`;
const foldersOf = (demo: number): string[] =>
  readdirSync('/var/tmp').filter((name) => name.startsWith(`agentzip-demo-${demo}-`));

interface Demo {
  pid: number;
  output(): string;
  /** As `demo | head` does when it has seen enough. */
  closeOutput(): void;
  exit: Promise<unknown[]>;
}

describe('a demo that is interrupted', () => {
  let child: ChildProcess | undefined;
  afterEach(() => {
    child?.kill('SIGTERM');
  });

  /** Starts a demo and waits until its sandboxes run; the first half runs without AgentZip. */
  const start = async (): Promise<Demo> => {
    const demo = spawn(process.execPath, [MAIN, 'demo', '--sandboxes', '2', '--turns', '9'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = demo;
    let output = '';
    for (const stream of [demo.stdout, demo.stderr]) stream.on('data', (chunk) => (output += chunk));
    const exit = once(demo, 'exit');
    const pid = demo.pid ?? 0;
    for (let i = 0; i < 150 && programsOf(pid).length < 3; i++) await sleep(100);
    expect(programsOf(pid)).toHaveLength(3);
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
      expect(existsSync(cgroupOf(pid))).toBe(false);
      expect(foldersOf(pid)).toEqual([]);
    },
    30_000,
  );

  it('by the end of who reads it leaves nothing', async () => {
    const { pid, output, closeOutput, exit } = await start();
    closeOutput();
    expect(await exit).toEqual([1, null]);
    expect(output()).toContain('a closed output');
    expect(programsOf(pid)).toEqual([]);
    expect(existsSync(cgroupOf(pid))).toBe(false);
    expect(foldersOf(pid)).toEqual([]);
  }, 30_000);

  it('by SIGKILL leaves no process, and the next demo removes the rest', async () => {
    const first = await start();
    process.kill(first.pid, 'SIGKILL');
    await first.exit;
    for (let i = 0; i < 50 && programsOf(first.pid).length > 0; i++) await sleep(50);
    expect(programsOf(first.pid)).toEqual([]);
    expect(existsSync(cgroupOf(first.pid))).toBe(true);
    const second = await start();
    expect(existsSync(cgroupOf(first.pid))).toBe(false);
    expect(foldersOf(first.pid)).toEqual([]);
    process.kill(second.pid, 'SIGTERM');
    await second.exit;
    expect(existsSync(cgroupOf(second.pid))).toBe(false);
  }, 45_000);
});
