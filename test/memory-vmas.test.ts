import { afterEach, expect, test } from 'vitest';
import { kindOfKey, parseVmas, readVmas } from '../src/memory/vmas.js';
import { Python } from './support/python.js';

const MAPS = `55d000000000-55d000001000 r--p 00000000 fe:00 1234                       /usr/bin/python3.11
55d000001000-55d000002000 r-xp 00001000 fe:00 1234                       /usr/bin/python3.11
55d000002000-55d000003000 rw-p 00002000 fe:00 1234                       /usr/bin/python3.11
55d000003000-55d000009000 rw-p 00000000 00:00 0 
55d100000000-55d100100000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
7f0000200000-7f0000300000 ---p 00000000 00:00 0 
7f0000300000-7f0000400000 rw-s 00000000 00:01 77                         /dev/zero (deleted)
7f0000400000-7f0000500000 rwxp 00000000 00:00 0 
7f0000500000-7f0000600000 rw-p 00000000 00:00 0                          [anon:arena one]
7f0000600000-7f0000700000 rw-p 00000000 00:00 0                          [anon_shmem:x]
7f0000700000-7f0000900000 rw-p 00000000 00:10 99                         /anon_hugepage (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00100000-7ffc00104000 r--p 00000000 00:00 0                          [vvar]
7ffc00104000-7ffc00106000 r-xp 00000000 00:00 0                          [vdso]
`;

test('maps are read into kinds, keys and reasons to leave out', () => {
  const seen = parseVmas(MAPS).map(({ key, leftOut }) => [key, leftOut]);
  expect(seen).toEqual([
    ['private-file:/usr/bin/python3.11:0', null],
    ['private-file:/usr/bin/python3.11:1', 'executable'],
    ['private-file:/usr/bin/python3.11:2', null],
    ['anonymous:/usr/bin/python3.11:0', null],
    ['heap:[heap]:0', null],
    ['anonymous::0', null],
    ['anonymous::1', 'not readable'],
    ['shared:/dev/zero:0', 'shared mapping'],
    ['anonymous::2', 'executable'],
    ['anonymous:[anon:arena one]:0', null],
    ['special:[anon_shmem:x]:0', 'mapping of the kernel'],
    ['private-file:/anon_hugepage:0', 'huge TLB pages can not be swapped'],
    ['stack:[stack]:0', null],
    ['special:[vvar]:0', 'mapping of the kernel'],
    ['special:[vdso]:0', 'mapping of the kernel'],
  ]);
});

test('addresses above 2^32 are exact', () => {
  const heap = parseVmas(MAPS).find((vma) => vma.kind === 'heap');
  expect(heap).toMatchObject({ start: 0x55d100000000, end: 0x55d100100000 });
});

test.each([
  ['ht', 'huge TLB pages can not be swapped'],
  ['lo', 'locked in memory'],
  ['pf', 'maps page frames of a device'],
  ['io', 'maps memory of a device'],
  ['um', 'userfaultfd handles its missing pages'],
  ['uw', 'userfaultfd protects its pages'],
  ['ui', 'userfaultfd handles its minor faults'],
])('VmFlags %s leave a mapping out', (flag, reason) => {
  const smaps = `7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \nRss: 4 kB\nVmFlags: rd wr ${flag} \n`;
  expect(parseVmas(smaps)[0].leftOut).toBe(reason);
});

test('a key names its kind', () => {
  expect(kindOfKey('private-file:/a:b/c:3')).toBe('private-file');
});

let python: Python | undefined;
afterEach(() => python?.stop());

test('a locked mapping of a real process is left out by flags only', async () => {
  python = await Python.start();
  const address = await python.area(16);
  await python.run(`ctypes.CDLL(None).mlock(ctypes.c_void_p(${address}), ctypes.c_size_t(${16 * 4096}))`);
  const holds = (flags: boolean) =>
    readVmas(python!.pid, { flags }).find(({ start, end }) => address >= start && address < end);
  expect(holds(false)).toMatchObject({ kind: 'anonymous', leftOut: null });
  expect(holds(true)).toMatchObject({ kind: 'anonymous', leftOut: 'locked in memory' });
});

test('a process that is gone has no mappings', async () => {
  python = await Python.start();
  const { pid } = python;
  await python.stop();
  expect(readVmas(pid, { flags: true })).toEqual([]);
});
