import { pbkdf2 } from 'node:crypto';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { timeHelpers } from '../src/memory/helper-cpu.js';

/** Works on a helper thread for some tens of milliseconds, as an asynchronous system call does. */
const work = (): Promise<Buffer> => promisify(pbkdf2)('key', 'salt', 60_000, 64, 'sha512');

test('what a helper thread does is counted, and what the calling thread does is not', async () => {
  const time = { cpuMs: 0 };
  await timeHelpers(time, work);
  expect(time.cpuMs).toBeGreaterThan(5);
  const idle = { cpuMs: 0 };
  await timeHelpers(idle, async () => {
    for (const end = performance.now() + 100; performance.now() < end;);
  });
  expect(idle.cpuMs).toBeLessThan(50);
});

test('calls at the same time share what is used, and it is counted once', async () => {
  const times = [{ cpuMs: 0 }, { cpuMs: 0 }];
  const before = process.cpuUsage();
  await Promise.all(times.map((time) => timeHelpers(time, work)));
  const { user, system } = process.cpuUsage(before);
  const total = times[0].cpuMs + times[1].cpuMs;
  for (const { cpuMs } of times) expect(cpuMs).toBeGreaterThan(5);
  expect(total).toBeLessThan((user + system) / 1000 + 1);
});

test('a call that fails is counted too', async () => {
  const time = { cpuMs: 0 };
  const failing = timeHelpers(time, async () => {
    await work();
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  expect(time.cpuMs).toBeGreaterThan(5);
});
