import { afterEach, expect, test } from 'vitest';
import { lookAt } from '../src/memory/look.js';
import { adviseVector, pageOut, vectorsOf } from '../src/memory/pageout.js';
import { identify, type ProcessId } from '../src/memory/process.js';
import { swapAreas } from '../src/memory/swap.js';
import { close } from '../src/native/files.js';
import { PAGE } from '../src/native/libc.js';
import { MADV_WILLNEED, pidfdOpen } from '../src/native/process.js';
import { Python } from './support/python.js';

let python: Python | undefined;
let pidfd = -1;
afterEach(async () => {
  await python?.stop();
  if (pidfd >= 0) close(pidfd);
  pidfd = -1;
});

async function start(pages: number): Promise<number> {
  python = await Python.start();
  pidfd = pidfdOpen(python.pid);
  const address = await python.area(pages);
  await python.run(`touch(0, 0, ${pages})`);
  return address;
}

const always = { vectorBytes: 64 * PAGE, cancelled: () => false };

test('ranges are cut into vectors of the size asked for, and lose nothing', () => {
  const ranges = [
    { address: 0, length: 3 * PAGE },
    { address: 100 * PAGE, length: 1 * PAGE },
    { address: 200 * PAGE, length: 9 * PAGE },
  ];
  const vectors = vectorsOf(ranges, 4 * PAGE);
  expect(
    vectors.map((vector) => vector.map(({ address, length }) => [address / PAGE, length / PAGE])),
  ).toEqual([
    [
      [0, 3],
      [100, 1],
    ],
    [[200, 4]],
    [[204, 4]],
    [[208, 1]],
  ]);
});

test('a vector never has more entries than the kernel takes', () => {
  const ranges = Array.from({ length: 3000 }, (_, i) => ({ address: 2 * i * PAGE, length: PAGE }));
  expect(vectorsOf(ranges, 2 ** 30).map((vector) => vector.length)).toEqual([1024, 1024, 952]);
});

test.skipIf(swapAreas().length > 0)('without a swap device everything stays', async () => {
  await start(300);
  const look = () => lookAt(identify(python!.pid) as ProcessId, { flags: true, swapType: 0 });
  const before = look()!;
  const bytes = before.owned.reduce((sum, { length }) => sum + length, 0);
  expect(await pageOut(pidfd, before.owned, always)).toMatchObject({
    advisedBytes: bytes,
    refused: 0,
    gone: false,
  });
  const after = look()!;
  expect(after.swappedPages).toBe(0);
  expect(after.ownedPages).toBeGreaterThanOrEqual(before.ownedPages);
});

test('it stops within one vector when it is cancelled', async () => {
  const address = await start(640);
  let asked = 0;
  const result = await pageOut(pidfd, [{ address, length: 640 * PAGE }], {
    vectorBytes: 64 * PAGE,
    cancelled: () => ++asked > 3,
  });
  expect(result.advisedBytes).toBe(3 * 64 * PAGE);
});

test('a range that is no longer mapped is skipped and the rest goes on', async () => {
  const address = await start(64);
  const vector = [
    { address, length: PAGE },
    { address: 2 ** 46, length: PAGE },
    { address: address + PAGE, length: 2 * PAGE },
  ];
  const result = await adviseVector(pidfd, vector, MADV_WILLNEED);
  expect(result).toMatchObject({ advisedBytes: 3 * PAGE, refused: 1, gone: false });
});

test('it stops cleanly when the process ends', async () => {
  const address = await start(64);
  await python!.stop();
  const result = await pageOut(pidfd, [{ address, length: 64 * PAGE }], always);
  expect(result).toMatchObject({ advisedBytes: 0, refused: 0, gone: true });
});
