import { afterEach, expect, test } from 'vitest';
import { rangesOfPages, restore } from '../src/memory/restore.js';
import { close } from '../src/native/files.js';
import { PAGE } from '../src/native/libc.js';
import { pidfdOpen } from '../src/native/process.js';
import { Python } from './support/python.js';

let python: Python | undefined;
let pidfd = -1;
afterEach(async () => {
  await python?.stop();
  if (pidfd >= 0) close(pidfd);
  pidfd = -1;
});

async function start(pages: number): Promise<{ target: { pid: number; pidfd: number }; address: number }> {
  python = await Python.start();
  pidfd = pidfdOpen(python.pid);
  const address = await python.area(pages);
  await python.run(`touch(0, 0, ${pages})`);
  return { target: { pid: python.pid, pidfd }, address };
}

test('page numbers become runs', () => {
  expect(rangesOfPages([1, 2, 3, 7, 9, 10])).toEqual([
    { address: PAGE, length: 3 * PAGE },
    { address: 7 * PAGE, length: PAGE },
    { address: 9 * PAGE, length: 2 * PAGE },
  ]);
});

test('every page of the ranges is gone through, also behind one that is not mapped', async () => {
  const { target, address } = await start(3000);
  const ranges = [
    { address: 2 ** 46, length: 3 * PAGE },
    { address, length: 3000 * PAGE },
  ];
  const options = { cancelled: () => false };
  expect(await restore(target, ranges, options)).toMatchObject({ pages: 3003, gone: false });
});

test('it stops within one vector when it is cancelled', async () => {
  const { target, address } = await start(5000);
  let asked = 0;
  const result = await restore(target, [{ address, length: 5000 * PAGE }], {
    cancelled: () => ++asked > 2,
  });
  expect(result).toMatchObject({ pages: 512, gone: false });
});

test('each vector is announced before it is asked for, and not long before', async () => {
  const { target, address } = await start(1000);
  const order: string[] = [];
  await restore(target, [{ address, length: 1000 * PAGE }], {
    cancelled: () => order.push('begin') < 0,
    announce: async ([{ address: at, length }]) =>
      void order.push(`${(at - address) / PAGE}+${length / PAGE}`),
  });
  expect(order).toEqual(['0+256', 'begin', '256+256', 'begin', '512+256', 'begin', '768+232', 'begin']);
});

test('an announcement that fails fails the restore, whenever it is found out', async () => {
  const { target, address } = await start(600);
  let times = 0;
  const announce = async (): Promise<void> => {
    if (++times === 2) throw new Error('the pager is gone');
  };
  const options = { cancelled: () => false, announce };
  await expect(restore(target, [{ address, length: 600 * PAGE }], options)).rejects.toThrow(/pager is gone/);
});

test('it stops cleanly when the process is gone', async () => {
  const { target, address } = await start(10);
  await python!.stop();
  const result = await restore(target, [{ address, length: 10 * PAGE }], {
    cancelled: () => false,
  });
  expect(result).toMatchObject({ pages: 0, gone: true });
});
