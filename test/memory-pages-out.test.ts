import { afterEach, expect, test } from 'vitest';
import { pagesOut } from '../src/memory/pages-out.js';
import { identify, type ProcessId } from '../src/memory/process.js';
import { Python } from './support/python.js';

let python: Python | undefined;
afterEach(() => python?.stop());

test('a process of which nothing is out has no such pages, guards among its pages or not', async () => {
  python = await Python.start();
  const address = await python.area(8);
  await python.run('touch(0, 0, 8)');
  // MADV_GUARD_INSTALL, where the kernel has it: its pages read as swapped.
  await python.run('ctypes.CDLL(None).madvise(ctypes.c_void_p(' + address + '), 4096, 102)');
  expect(pagesOut(identify(python.pid) as ProcessId)).toEqual([]);
});

test('a process that is gone has none to tell of', async () => {
  python = await Python.start();
  const process = identify(python.pid) as ProcessId;
  await python.stop();
  expect(pagesOut(process)).toBeNull();
});
