import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { close, ftruncate } from '../src/native/files.js';
import { MAP_SHARED, mmap, munmap, PROT_READ, PROT_WRITE } from '../src/native/memory.js';
import { RobustMutex } from '../src/native/robust-mutex.js';
import { socketPair } from '../src/native/sockets.js';
import { reap, spawnProgram } from '../src/native/spawn.js';
import { packageRoot } from '../src/paths.js';
import { createMemoryFile } from '../src/store/memory-file.js';

const BYTES = 4096;
let fd: number;
let address: number;
beforeEach(() => {
  fd = createMemoryFile('agentzip-test');
  ftruncate(fd, BYTES);
  address = mmap(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
});
afterEach(() => {
  munmap(address, BYTES);
  close(fd);
});

/** Takes the mutex in a thread of its own, says so, and dies after a while as `end` wants it. */
const HOLDER = `
const { Worker } = require('node:worker_threads');
new Worker(\`
  const { parentPort } = require('node:worker_threads');
  (async () => {
    const memory = await import('${packageRoot}/dist/native/memory.js');
    const { RobustMutex } = await import('${packageRoot}/dist/native/robust-mutex.js');
    new RobustMutex(memory.mmap(${BYTES}, 3, 1, 3)).lock();
    require('node:fs').writeSync(4, 'held');
    await new Promise((resolve) => setTimeout(resolve, 150));
    END
  })();
\`, { eval: true });
setInterval(() => {}, 1000);
`;

async function holder(end: string): Promise<number> {
  const [ours, theirs] = socketPair();
  const words = [process.execPath, '-e', HOLDER.replace('END', end)];
  const pid = spawnProgram(process.execPath, words, process.env, [0, 1, 2, fd, theirs]);
  close(theirs);
  const socket = new Socket({ fd: ours });
  await once(socket, 'data');
  socket.destroy();
  return pid;
}

async function ended(pid: number): Promise<void> {
  while (!reap(pid)) await sleep(20);
}

test('a mutex passes on when the process of its owner is killed', async () => {
  const mutex = new RobustMutex(address);
  mutex.init();
  const pid = await holder(`process.kill(process.pid, 'SIGKILL');`);
  expect(mutex.tryLock()).toBeNull();
  expect(mutex.lock()).toBe(true);
  await ended(pid);
  // Ours now, and whole: who comes next waits for us.
  expect(mutex.tryLock()).toBeNull();
});

test('it passes on when the thread alone ends, and the process lives on', async () => {
  const mutex = new RobustMutex(address);
  mutex.init();
  const pid = await holder('process.exit(0);');
  expect(mutex.lock()).toBe(true);
  expect(readFileSync(`/proc/${pid}/stat`, 'latin1')).not.toMatch(/\) Z /);
  process.kill(pid, 'SIGKILL');
  await ended(pid);
});

test('a free mutex is had at once', () => {
  const mutex = new RobustMutex(address);
  mutex.init();
  expect(mutex.tryLock()).toBe(false);
});
