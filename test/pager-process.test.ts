import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import { PagerClient } from '../src/pager/client.js';
import { pagerSocket } from '../src/pager/options.js';
import { checkRoom } from '../src/pager/swap/room.js';
import { startPager } from '../src/pager/start.js';
import { packageRoot } from '../src/paths.js';
import { Hog, launchPager, stopPager, testPagerOptions, type TestPager } from './support/pager.js';

let pager: TestPager | undefined;
let hog: Hog | undefined;

afterEach(async () => {
  await hog?.stop();
  await stopPager(pager);
  hog = pager = undefined;
});

const statusOf = (pid: number, field: string): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);

test('all memory of the pager is locked, and it lives on while its heap is collected', async () => {
  pager = await launchPager();
  // Thousands of replies fill and free heap pages; a locked V8 without its filter aborts at the first one freed.
  for (let i = 0; i < 3000; i++) await pager.client.request('status', {});
  expect(statusOf(pager.pid, 'VmSwap')).toBe(0);
  expect(statusOf(pager.pid, 'VmLck')).toBeGreaterThanOrEqual(statusOf(pager.pid, 'VmRSS'));
  expect(existsSync(`/proc/${pager.pid}`)).toBe(true);
});

test('its data loop goes before everything that is not real-time', async () => {
  pager = await launchPager();
  const tasks = `/proc/${pager.pid}/task`;
  const isLoop = (tid: string): boolean => readFileSync(`${tasks}/${tid}/comm`, 'latin1') === 'data-loop\n';
  const loops = readdirSync(tasks).filter(isLoop);
  expect(loops).toHaveLength(1);
  const fields = readFileSync(`${tasks}/${loops[0]}/stat`, 'latin1').split(') ')[1].split(' ');
  expect({ priority: fields[37], policy: fields[38] }).toEqual({ priority: '1', policy: '2' }); // SCHED_RR
});

test('a second pager in the same folder is refused, a second client is served', async () => {
  pager = await launchPager();
  const options = testPagerOptions(pager.runtimeDir);
  const second = spawnSync(
    process.execPath,
    [`${packageRoot}/dist/pager/process/launcher.js`, JSON.stringify(options)],
    {
      timeout: 20_000,
      encoding: 'utf8',
    },
  );
  expect(second.status).toBe(1);
  expect(second.stderr).toContain('AZ_ALREADY_RUNNING');
  const client = await startPager(options);
  expect((await client.request('hello', {})).pid).toBe(pager.pid);
  client.close();
});

test('a client that sends nonsense loses its connection, and only that', async () => {
  pager = await launchPager();
  for (const nonsense of [
    Buffer.alloc(64, 0xff),
    Buffer.from('\x05\0\0\0\0\0\0\0\x01\0\0\0{not}', 'latin1'),
  ]) {
    const socket = connect(pagerSocket(pager.runtimeDir));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(nonsense);
    await closed;
  }
  await expect(pager.client.request('unloadPack', { pack: 77 })).resolves.toEqual({});
  await expect(pager.client.request('nothing' as never, {} as never)).rejects.toMatchObject({
    code: 'AZ_PAGER_REFUSED',
  });
  await expect(pager.client.request('closeWindow', { owner: 'nobody' })).rejects.toMatchObject({
    code: 'AZ_PAGER_REFUSED',
  });
  await expect(pager.client.request('loadPack', { path: '/nowhere.pack' })).rejects.toMatchObject({
    code: 'AZ_PACK_INVALID',
  });
});

test('SIGTERM pages everything back in and takes the device away', { timeout: 90_000 }, async () => {
  pager = await launchPager();
  hog = await Hog.start(96, 32);
  expect((await pager.client.request('status', {})).usedSlots).toBeGreaterThan(32 * 256);
  // The limit must go first: what comes back must fit.
  hog.unlimit();
  process.kill(pager.pid, 'SIGTERM');
  await pager.client.closed;
  for (let waited = 0; existsSync(`/proc/${pager.pid}`) && waited < 20_000; waited += 50) await sleep(50);
  expect(readFileSync('/proc/swaps', 'latin1')).not.toContain(pager.device);
  expect(await hog.ask('verify')).toBe('ok');
  expect(readFileSync('/proc/mounts', 'latin1')).not.toContain(pager.runtimeDir);
  rmSync(pager.runtimeDir, { recursive: true });
  pager = undefined;
});

test('draining is refused, with the numbers, when memory does not suffice', () => {
  let refusal: unknown;
  try {
    checkRoom(400 * 256, 300 * 2 ** 20);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toBeInstanceOf(AgentZipError);
  expect((refusal as AgentZipError).code).toBe('AZ_DRAIN_MEMORY');
  expect((refusal as AgentZipError).message).toContain(
    'needs 464 MiB to page everything back in, but 300 MiB is available',
  );
  expect(() => checkRoom(400 * 256, 500 * 2 ** 20)).not.toThrow();
});

test('a pager that can not start says why', async () => {
  const options = testPagerOptions('/run/agentzip-test-refused');
  await expect(startPager({ ...options, runtimeDir: '/dev/null/agentzip' })).rejects.toThrow('ENOTDIR');
  await expect(PagerClient.connect('/run/agentzip-test-absent/pager.sock')).rejects.toMatchObject({
    code: 'ENOENT',
  });
});

test('a pager that fails when its file system is mounted already takes it away again', async () => {
  const runtimeDir = `/run/agentzip-test-mount-${process.pid}`;
  // More than a memory file can be.
  const options = { ...testPagerOptions(runtimeDir), storeBytes: 2 ** 62 };
  const error = await startPager(options).catch((reason: unknown) => reason);
  expect((error as AgentZipError).code).toBe('AZ_PAGER_START');
  expect(readFileSync('/proc/mounts', 'latin1')).not.toContain(runtimeDir);
  rmSync(runtimeDir, { recursive: true });
});
