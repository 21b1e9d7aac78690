import { release } from 'node:os';
import { afterEach, expect, test } from 'vitest';
import { lookAt, type Look } from '../src/memory/look.js';
import { isAnonymous, isOwned, isSwapped, Pagemap, swapOffset, swapType } from '../src/memory/pagemap.js';
import { identify, type ProcessId } from '../src/memory/process.js';
import { readVmas } from '../src/memory/vmas.js';
import { PAGE } from '../src/native/libc.js';
import { Python } from './support/python.js';

const ENTRY_SWAPPED = 1n << 62n;

const words = (entry: bigint): [low: number, high: number] => [
  Number(entry & 0xffffffffn),
  Number((entry >> 32n) & 0xffffffffn),
];

test('an entry is decoded bit by bit', () => {
  const [low, high] = words(ENTRY_SWAPPED | (0x123456789an << 5n) | 7n);
  expect(isSwapped(high)).toBe(true);
  expect(swapType(low)).toBe(7);
  expect(swapOffset(low, high)).toBe(0x123456789a);
  const flags = (...bits: bigint[]) => words(bits.reduce((sum, bit) => sum | (1n << bit), 0n))[1];
  expect(isOwned(flags(63n, 56n))).toBe(true);
  expect(isOwned(flags(63n, 56n, 61n))).toBe(false);
  expect(isOwned(flags(63n))).toBe(false);
  expect(isAnonymous(flags(63n))).toBe(true);
  expect(isAnonymous(flags(63n, 61n))).toBe(false);
});

test('the largest swap offset survives', () => {
  const offset = 2n ** 50n - 1n;
  const [low, high] = words(ENTRY_SWAPPED | (offset << 5n));
  expect(swapOffset(low, high)).toBe(Number(offset));
});

const pythons: Python[] = [];
const start = async (): Promise<Python> => {
  const python = await Python.start();
  pythons.push(python);
  return python;
};
afterEach(async () => {
  for (const python of pythons.splice(0)) await python.stop();
});

/** Owned pages that a look shows in [address, address + pages). */
function ownedIn(look: Look | null, address: number, pages: number): number {
  const end = address + pages * PAGE;
  return (look?.owned ?? []).reduce((sum, range) => {
    const from = Math.max(range.address, address);
    const to = Math.min(range.address + range.length, end);
    return sum + Math.max(0, to - from) / PAGE;
  }, 0);
}

const look = (pid: number): Look | null => lookAt(identify(pid) as ProcessId, { flags: true, swapType: 0 });

test('a look within the runs of an earlier one sees those pages again, and no new ones', async () => {
  const python = await start();
  const [old, fresh] = [await python.area(1000), await python.area(1000)];
  await python.run('touch(0, 0, 1000)');
  const first = look(python.pid)!;
  await python.run('touch(1, 0, 1000)');
  const process = identify(python.pid) as ProcessId;
  const options = { flags: false, known: first.vmas, trusting: true, swapType: 0 };
  const second = lookAt(process, { ...options, within: first.runs });
  expect(ownedIn(second, old, 1000)).toBe(1000);
  expect(ownedIn(second, fresh, 1000)).toBeLessThan(1000);
  expect(ownedIn(lookAt(process, options), fresh, 1000)).toBe(1000);
});

test('owned pages are exactly those a process has touched', async () => {
  const python = await start();
  const address = await python.area(1000);
  expect(ownedIn(look(python.pid), address, 1000)).toBe(0);
  await python.run('touch(0, 10, 123)');
  await python.run('touch(0, 900, 5)');
  const now = look(python.pid);
  expect(ownedIn(now, address, 1000)).toBe(128);
  expect(ownedIn(now, address + 10 * PAGE, 123)).toBe(123);
});

test('pages shared by a fork are owned by whoever writes them', async () => {
  const python = await start();
  const address = await python.area(64);
  await python.run('touch(0, 0, 64)');
  const child = Number(await python.run('fork()'));
  expect(ownedIn(look(child), address, 64)).toBe(0);
  expect(ownedIn(look(python.pid), address, 64)).toBe(0);
  await python.run('child_touches()');
  expect(ownedIn(look(child), address, 64)).toBe(2);
});

test('what flags left out in one look stays out in the next without reading them', async () => {
  const python = await start();
  const address = await python.area(32);
  await python.run('touch(0, 0, 32)');
  await python.run(`ctypes.CDLL(None).mlock(ctypes.c_void_p(${address}), ctypes.c_size_t(${32 * PAGE}))`);
  const id = identify(python.pid) as ProcessId;
  const known = lookAt(id, { flags: true, swapType: 0 })?.vmas;
  expect(ownedIn(lookAt(id, { flags: false, swapType: 0 }), address, 32)).toBe(32);
  expect(ownedIn(lookAt(id, { flags: false, swapType: 0, known }), address, 32)).toBe(0);
});

test('the page table of another process with the same pid is refused', async () => {
  const python = await start();
  const real = identify(python.pid) as ProcessId;
  expect(Pagemap.open({ ...real, startTime: real.startTime - 1 })).toBeNull();
});

test('a process that is gone can not be looked at', async () => {
  const python = await start();
  const id = identify(python.pid) as ProcessId;
  await python.stop();
  expect(lookAt(id, { flags: true, swapType: 0 })).toBeNull();
});

test('what the kernel tells of anonymous pages in one call is what its table shows entry by entry', async () => {
  const python = await start();
  await python.area(1000);
  for (const first of [3, 40, 41, 200, 999]) await python.run(`touch(0, ${first}, 1)`);
  const id = identify(python.pid) as ProcessId;
  const pagemap = Pagemap.open(id) as Pagemap;
  try {
    const runs = pagemap.anonymousRuns();
    if (runs === null) return expect(kernelBefore(6, 7)).toBe(true);
    const inRun = (address: number): boolean =>
      runs.some((run) => address >= run.address && address < run.address + run.length);
    const missed: number[] = [];
    let anonymous = 0;
    for (const { start, end, kind, path } of readVmas(python.pid, { flags: false })) {
      if (kind === 'shared' || path === '[vsyscall]') continue;
      pagemap.scan(start, end, (address, _, high) => {
        if (!isAnonymous(high) && !isSwapped(high)) return;
        anonymous++;
        if (!inRun(address)) missed.push(address);
      });
    }
    expect(missed).toEqual([]);
    expect(anonymous).toBeGreaterThan(5);
  } finally {
    pagemap.close();
  }
});

function kernelBefore(major: number, minor: number): boolean {
  const [a, b] = release().split('.').map(Number);
  return a < major || (a === major && b < minor);
}

test('a look that trusts what is known does not see new mappings, and sees new pages', async () => {
  const python = await start();
  const known = look(python.pid)!.vmas;
  const address = await python.area(64);
  await python.run('touch(0, 0, 64)');
  const id = identify(python.pid) as ProcessId;
  const trusting = lookAt(id, { flags: false, trusting: true, known, swapType: 0 });
  expect(ownedIn(trusting, address, 64)).toBe(0);
  const later = lookAt(id, { flags: false, trusting: true, known: look(python.pid)!.vmas, swapType: 0 });
  expect(ownedIn(later, address, 64)).toBe(64);
});
