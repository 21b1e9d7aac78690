import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { shareAt } from '../src/pager/refine/urgency.js';
import { launchPager, stopPager, Hog, type TestPager } from './support/pager.js';

const SCHED_IDLE = 5;
const POLICY = 38;

test('refinement is idle work until staging fills', () => {
  expect([0, 0.01, 0.02, 0.1, 0.125, 1].map(shareAt)).toEqual(['idle', 'idle', 10, 10, 0, 0]);
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
    const { accepted } = await client.claim({ ...claim, slots: pages, templatePages });
    expect(accepted).toBeGreaterThan(1024);
    await expect.poll(() => policies(pager!.pid), { timeout: 10_000 }).toEqual([0]);
  } finally {
    await hog?.stop();
    await stopPager(pager);
  }
});
