import { existsSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { hasPager, pagerLog } from '../src/pager/options.js';
import { launchPager, stopPager, type TestPager } from './support/pager.js';

/** What needs no dead pager; those are in pager-kills, in a guest of their own. */
let pager: TestPager | undefined;
afterEach(async () => {
  await stopPager(pager);
  pager = undefined;
});

/** Pid of the standby, once there is one other than `before`. */
async function standby({ client }: TestPager, before: number | null = null): Promise<number> {
  for (;;) {
    const { standbyPid } = await client.request('status', {});
    if (standbyPid !== null && standbyPid !== before) return standbyPid;
    await sleep(20);
  }
}

const field = (pid: number, name: string): number =>
  Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);

const lives = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));

test('the standby is locked in memory, filtered like the pager, and small', async () => {
  pager = await launchPager();
  const pid = await standby(pager);
  expect(field(pid, 'VmSwap')).toBe(0);
  expect(field(pid, 'VmLck')).toBeGreaterThanOrEqual(field(pid, 'VmRSS'));
  for (const name of ['Seccomp', 'Seccomp_filters']) expect(field(pid, name)).toBe(field(pager.pid, name));
  expect(field(pid, 'RssAnon') / 1024).toBeLessThan(48);
  // It maps the store, and has none of it.
  expect(field(pid, 'RssShmem')).toBeLessThan(1024);
});

test('a drain dismisses it: it goes, and takes nothing over', async () => {
  pager = await launchPager();
  const pid = await standby(pager);
  expect(hasPager(pager.runtimeDir)).toBe(true);
  const { runtimeDir, client } = pager;
  await client.drain();
  await client.closed;
  await expect.poll(() => hasPager(runtimeDir)).toBe(false);
  expect(lives(pid)).toBe(false);
  expect(readFileSync(pagerLog(runtimeDir), 'utf8')).not.toContain('took over');
  expect(readFileSync('/proc/mounts', 'utf8')).not.toContain(runtimeDir);
  rmSync(runtimeDir, { recursive: true });
  pager = undefined;
});

test('one that dies is replaced', async () => {
  pager = await launchPager();
  const first = await standby(pager);
  process.kill(first, 'SIGKILL');
  const second = await standby(pager, first);
  expect(lives(second)).toBe(true);
  // Reaped: no zombie of each that died.
  await expect.poll(() => existsSync(`/proc/${first}`)).toBe(false);
  expect((await pager.client.request('status', {})).takeovers).toBe(0);
});

test('a signal to end, which a service manager sends to all, does not reach it', async () => {
  pager = await launchPager();
  const pid = await standby(pager);
  process.kill(pid, 'SIGTERM');
  process.kill(pid, 'SIGINT');
  await sleep(200);
  expect((await pager.client.request('status', {})).standbyPid).toBe(pid);
});

test('without pager.standby there is none', async () => {
  pager = await launchPager({ standby: false });
  await sleep(1000);
  expect((await pager.client.request('status', {})).standbyPid).toBeNull();
});
