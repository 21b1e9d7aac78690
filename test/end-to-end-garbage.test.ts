import { existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Family } from './support/family.js';
import { testRandom } from './support/seed.js';
import { Service } from './support/service.js';

const PAGES = 4096;
/** Pages of zeros among them, which have a slot and never reach the device, for the kernel keeps them itself. */
const ZEROS = { at: 192, pages: 8 };
const LIMIT = { timeout: 150_000 };
/** A sweep looks twice, 300 ms apart, after the first claims. */
const SWEEP_MS = 1500;
/** Of an idle Python: its stack, what the kernel has pinned. */
const MOST_LEFT_BYTES = 512 * 1024;

let service: Service;
let family: Family;
const cgroups: string[] = [];
beforeEach(async () => {
  service = await Service.start({ prefetch: { enabled: false } });
  family = await Family.start();
  await service.client.putTemplate('base', { tenant: 'acme', pid: family.pid });
});
afterEach(async () => {
  await family?.stop();
  await service?.stop();
  for (const cgroup of cgroups.splice(0)) {
    await expect.poll(() => readFileSync(`${cgroup}/cgroup.procs`, 'utf8'), { timeout: 10_000 }).toBe('');
    rmdirSync(cgroup);
  }
});

const say = (command: string, name = 'one'): Promise<string> => family.ask(name, command);

/** One wait of the model: everything goes out, is claimed, and what is garbage by then is freed. */
async function wait(name = 'one'): Promise<void> {
  await service.event('llm_request_sent', name);
  const owned = async () => (await service.client.getSandbox(name)).ownedBytes;
  await expect.poll(owned, { timeout: 30_000 }).toBeLessThan(MOST_LEFT_BYTES);
  await sleep(SWEEP_MS);
  await service.event('llm_response_end', name);
  await service.event('tool_start', name);
}

async function start(name = 'one'): Promise<number> {
  const pid = await family.fork(name);
  await say(`noise ${name} ${PAGES}`, name);
  await say(`clear ${ZEROS.at} ${ZEROS.pages}`, name);
  await service.client.putSandbox(name, { template: 'base', tenant: 'acme', pids: [pid] });
  await wait(name);
  return pid;
}

const freed = async (): Promise<number> => (await service.pagerStatus()).freedSlots;

function cgroup(name: string): string {
  const v1 = '/sys/fs/cgroup/memory';
  const path = `${existsSync(v1) ? v1 : '/sys/fs/cgroup'}/agentzip-test-${process.pid}-${name}`;
  mkdirSync(path);
  cgroups.push(path);
  return path;
}

test('pages that a tool has written anew leave no garbage behind', LIMIT, async () => {
  await start();
  // Half of every cluster of 512: of a whole one the kernel itself tells.
  for (let first = 0; first < PAGES; first += 256) await say(`rewrite other ${first} 128`);
  await wait();
  expect(await freed()).toBeGreaterThan(0.9 * (PAGES / 2));
  const { usedSlots } = await service.pagerStatus();
  const { swappedBytes } = await service.client.getSandbox('one');
  expect(usedSlots).toBeLessThan(1.1 * (swappedBytes / 4096) + 512);
  expect(await say('verify')).toBe('ok');
});

test('a page that others look at, as ps does, keeps no garbage', LIMIT, async () => {
  const pid = await start();
  for (let first = 0; first < PAGES; first += 256) await say(`rewrite other ${first} 128`);
  await service.event('llm_request_sent', 'one');
  // The first attempts find it present, and nothing but another page-out sends it out again.
  for (const end = Date.now() + 1500; Date.now() < end; await sleep(2))
    readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  await expect.poll(freed, { timeout: 15_000 }).toBeGreaterThan(0.9 * (PAGES / 2));
  expect(await say('verify')).toBe('ok');
});

test('what only a child still has is kept for it', LIMIT, async () => {
  await start();
  await say('fork');
  await say(`rewrite other 0 ${PAGES}`);
  await wait();
  await say(`rewrite third 0 ${PAGES}`);
  await wait();
  expect(await say('child verify')).toBe('ok');
  expect(await say('verify')).toBe('ok');
});

test(
  'what a process that has left the sandbox still has is kept, also when the sandbox ends',
  LIMIT,
  async () => {
    const home = cgroup('home');
    const away = cgroup('away');
    await family.fork('one');
    await say(`leave ${home}/cgroup.procs`);
    await say(`noise one ${PAGES}`);
    await service.client.putSandbox('one', { template: 'base', tenant: 'acme', cgroup: home });
    await wait();
    await say('fork');
    await say(`child leave ${away}/cgroup.procs`);
    await say(`rewrite other 0 ${PAGES}`);
    await wait();
    expect(await freed()).toBe(0);
    expect(await say('child verify')).toBe('ok');
  },
);

test('whatever sandboxes do with their memory, no page that somebody has is freed', LIMIT, async () => {
  const random = testRandom('end-to-end-garbage');
  await start();
  let child = false;
  for (let turn = 0; turn < 10; turn++) {
    for (let i = random.integer(1, 5); i > 0; i--) {
      const range = `${random.integer(0, PAGES - 600)} ${random.integer(100, 600)}`;
      const choice = random.integer(0, 9);
      if (choice <= 2) await say(`rewrite turn${turn}-${i} ${range}`);
      else if (choice === 3) await say(`read ${range}`);
      else if (choice === 4) await say(`drop ${range}`);
      else if (choice === 5) await say('move');
      else if (choice === 6) await say(`clear ${range}`);
      else if (child) {
        expect(await say('child verify')).toBe('ok');
        child = (await say('child quit')) !== 'ended';
      } else {
        child = (await say('fork')) !== '';
      }
    }
    await wait();
    if (turn % 3 === 2) expect(await say('verify')).toBe('ok');
  }
  if (child) expect(await say('child verify')).toBe('ok');
  expect(await say('verify')).toBe('ok');
  const status = await service.pagerStatus();
  expect(status).toMatchObject({ corruptPages: 0 });
  expect(status.freedSlots).toBeGreaterThan(0);
});
