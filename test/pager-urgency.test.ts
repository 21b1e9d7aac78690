import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { schedule } from '../src/native/process.js';
import { CpuGroup, mountOf } from '../src/pager/refine/cpu-group.js';
import { shareAt, Urgency } from '../src/pager/refine/urgency.js';
import { launchPager, stopPager, Hog, type TestPager } from './support/pager.js';

const SCHED_IDLE = 5;
const POLICY = 38;

test('refinement is idle work until staging fills', () => {
  expect([0, 0.01, 0.02, 0.1, 0.125, 1].map(shareAt)).toEqual(['idle', 'idle', 10, 10, 0, 0]);
});

test('the cpu controller of cgroup v1 is found among the mounts', () => {
  const line = (path: string, type: string, options: string): string =>
    `31 23 0:28 / ${path} rw,nosuid shared:9 - ${type} ${type} ${options}`;
  const v2 = line('/sys/fs/cgroup', 'cgroup2', 'rw');
  const memory = line('/cg/memory', 'cgroup', 'rw,memory');
  expect(mountOf([v2, memory, line('/cg/cpu', 'cgroup', 'rw,cpu,cpuacct')].join('\n'))).toBe('/cg/cpu');
  expect(mountOf([v2, memory, line('/cg/cpuset', 'cgroup', 'rw,cpuset')].join('\n'))).toBeNull();
});

test('threads of the group are told from others, and it leaves nothing', () => {
  const group = CpuGroup.make();
  const mount = mountOf(readFileSync('/proc/self/mountinfo', 'utf8'));
  if (mount === null) return expect(group).toBeNull();
  const [tid] = readdirSync('/proc/self/task');
  const threads = (): string[] => readFileSync(`${mount}/${name}/tasks`, 'utf8').split('\n').slice(0, -1);
  const name = `agentzip-refine-${process.pid}`;
  const knob = (file: string): number => Number(readFileSync(`${mount}/${name}/${file}`, 'utf8'));
  try {
    group!.enter(Number(tid));
    expect(threads()).toEqual([tid]);
    group!.set(10);
    expect(knob('cpu.shares')).toBe(110);
    group!.set(0);
    expect(knob('cpu.shares')).toBe(1024);
    // As a worker is that has a page in hand when its window ends.
    schedule(Number(tid), 'realtime');
    schedule(Number(tid), 0);
    group!.leave(Number(tid));
    expect(threads()).toEqual([]);
    group!.enter(Number(tid));
  } finally {
    group!.remove();
  }
  expect(existsSync(`${mount}/${name}`)).toBe(false);
});

test('the groups of pagers that were killed go with the next one, though it never had a thread', async () => {
  const mount = mountOf(readFileSync('/proc/self/mountinfo', 'utf8'));
  if (mount === null) return;
  // One whose status nobody asks for any more: the shell becomes a program that does not wait for it.
  const parent = spawn('/bin/sh', ['-c', 'sleep 0.2 & echo $!; exec sleep 60']);
  const [line] = (await once(parent.stdout, 'data')) as [Buffer];
  const ended = Number(line);
  await expect.poll(() => existsSync(`/proc/${ended}/exe`)).toBe(false);
  const groups = [ended, parent.pid].map((pid) => `${mount}/agentzip-refine-${pid}`);
  try {
    for (const group of groups) mkdirSync(group);
    expect(existsSync(`/proc/${ended}`)).toBe(true);
    new Urgency().end();
    expect(groups.map((group) => existsSync(group))).toEqual([false, true]);
  } finally {
    parent.kill();
    for (const group of groups) if (existsSync(group)) rmdirSync(group);
  }
});

/** Scheduling policy of the pager's refine threads, by /proc/PID/task/TID/stat. */
function policies(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => `/proc/${pid}/task/${thread}`)
    .filter((task) => readFileSync(`${task}/comm`, 'latin1').startsWith('refine-'))
    .map((task) => readFileSync(`${task}/stat`, 'latin1'))
    .map((stat) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[POLICY]));
}

test('a worker with a backlog no longer gives way to everything', { timeout: 60_000 }, async () => {
  let pager: TestPager | undefined;
  let hog: Hog | undefined;
  try {
    // Half of what the process keeps out is more than an eighth of this staging.
    pager = await launchPager({ stagingBytes: 2 ** 25 });
    await expect.poll(() => policies(pager!.pid), { timeout: 10_000 }).toEqual([SCHED_IDLE]);
    hog = await Hog.start(96, 64);
    const { client } = pager;
    const { sequence } = await client.request('sequence', {});
    const pages = Uint32Array.from({ length: 4096 }, (_, slot) => slot + 1);
    await client.request('openWindow', { owner: 'a' });
    const templatePages = new Uint32Array(pages.length).fill(0xffffffff);
    const claim = { owner: 'a', domain: 'd', pack: null, sequence, soleSince: null };
    await client.claim({ ...claim, slots: pages, templatePages });
    expect((await client.request('status', {})).owners[0].slots).toBeGreaterThan(1024);
    await expect.poll(() => policies(pager!.pid), { timeout: 10_000 }).toEqual([0]);
  } finally {
    await hog?.stop();
    await stopPager(pager);
  }
});
