import { afterEach, expect, test } from 'vitest';
import { PAGE } from '../src/native/libc.js';
import { identify, type ProcessId } from '../src/memory/process.js';
import { anyInSwapCache, isSole, referencesOf, solePages } from '../src/memory/references.js';
import { Python } from './support/python.js';

const PAGES = 64;
let python: Python;
afterEach(() => python.stop());

const process = (): ProcessId => identify(python.pid) as ProcessId;

function soleAmong(address: number): number {
  const sole = solePages(process(), [{ address, length: PAGES * PAGE }]);
  let count = 0;
  sole.forEach(() => count++);
  return count;
}

test('pages are a process’s alone until it forks, and again once it has written to them', async () => {
  python = await Python.start();
  const address = await python.area(PAGES);
  await python.run(`touch(0, 0, ${PAGES})`);
  expect(soleAmong(address)).toBe(PAGES);
  await python.run('fork()');
  expect(soleAmong(address)).toBe(0);
  await python.run('touch(0, 10, 5, 7)');
  expect(soleAmong(address)).toBe(5);
});

test('every page that is present is found, also where nothing is paged out from', async () => {
  python = await Python.start();
  const before = referencesOf(process(), 0);
  await python.area(PAGES);
  await python.run(`touch(0, 0, ${PAGES})`);
  await python.run('ctypes.CDLL(None).mlockall(1)');
  const after = referencesOf(process(), 0);
  expect(after!.frames.length - before!.frames.length).toBeGreaterThanOrEqual(PAGES);
  expect(anyInSwapCache(after!.frames)).toBe(false);
});

test('a process that has ended has no references', async () => {
  python = await Python.start();
  const ended = process();
  await python.stop();
  expect(referencesOf(ended, 0)).toBeNull();
});

test('a page in the swap cache is its process’s alone only where the kernel says so', () => {
  const swapCache = 1 << 13;
  const ksm = 1 << 21;
  const part = 1 << 16;
  const exclusive = 1 << 2;
  expect(isSole(0, 0)).toBe(true);
  expect(isSole(swapCache, 0)).toBe(false);
  expect(isSole(swapCache, exclusive)).toBe(true);
  expect(isSole(swapCache | part, exclusive)).toBe(false);
  expect(isSole(ksm, 0)).toBe(false);
  // Linux 6.12 has KSM's bit on every anonymous page.
  expect(isSole(ksm, exclusive)).toBe(true);
  expect(isSole(ksm | part, exclusive)).toBe(true);
  expect(isSole(ksm | part | swapCache, exclusive)).toBe(false);
});
