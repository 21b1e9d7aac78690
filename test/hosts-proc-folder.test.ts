import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ProcFolder } from '../src/hosts/proc-folder.js';

let root: string;
beforeEach(() => {
  root = mkdtempSync(`${tmpdir()}/agentzip-proc-`);
});
afterEach(() => rmSync(root, { recursive: true }));

function file(path: string, text: string): void {
  mkdirSync(dirname(`${root}/${path}`), { recursive: true });
  writeFileSync(`${root}/${path}`, text);
}

test.each<[what: string, text: string, cgroup: string | null]>([
  ['version 2', '0::/e2b/sbx-a-b\n', '/e2b/sbx-a-b'],
  ['version 1', '5:memory:/firecracker/vm\n3:cpu,cpuacct:/other\n', '/firecracker/vm'],
  ['both, of which version 1 has the memory', '4:memory:/v1\n0::/v2\n', '/v1'],
  ['both, of which version 2 has it', '1:name=systemd:/v1\n0::/v2\n', '/v2'],
])('the cgroup of a process: %s', (_what, text, cgroup) => {
  file('proc/42/cgroup', text);
  expect(new ProcFolder(root).cgroup(42)).toBe(cgroup);
});

test('a limit of its own cgroup, or of one above, keeps it from being swapped', () => {
  const proc = new ProcFolder(root);
  file('proc/42/cgroup', '0::/vms/a\n');
  expect(proc.maySwap(42)).toBe(true);
  file('sys/fs/cgroup/vms/a/memory.swap.max', 'max\n');
  expect(proc.maySwap(42)).toBe(true);
  file('sys/fs/cgroup/vms/memory.swap.max', '0\n');
  expect(proc.maySwap(42)).toBe(false);
});

/** A stat with the start time and where the arguments are. */
const stat = (startTime: number, from: number, to: number): string =>
  `42 (vm) S 17 ${'0 '.repeat(17)}${startTime} ${'0 '.repeat(25)}${from} ${to} 0 0 0\n`;

test('the arguments of a program are read once, for the page they are in may be out', () => {
  const proc = new ProcFolder(root);
  const argv = (text: string): string[] => {
    file('proc/42/cmdline', text);
    return proc.argv(42);
  };
  file('proc/42/stat', stat(4711, 1000, 1009));
  expect(argv('vm\0--id\0a\0')).toEqual(['vm', '--id', 'a']);
  expect(argv('read once more')).toEqual(['vm', '--id', 'a']);
  // exec, and then another process with its number.
  file('proc/42/stat', stat(4711, 2000, 2003));
  expect(argv('sh\0')).toEqual(['sh']);
  file('proc/42/stat', stat(4712, 2000, 2003));
  expect(argv('ls\0')).toEqual(['ls']);
  // Where the kernel does not tell, they are read each time.
  file('proc/42/stat', stat(4712, 0, 0));
  expect([argv('a\0'), argv('b\0')]).toEqual([['a'], ['b']]);
});

test('a process that is gone is nothing', () => {
  const proc = new ProcFolder(root);
  expect([proc.pids(), proc.exe(7), proc.argv(7), proc.parent(7)]).toEqual([[], null, [], 0]);
  expect([proc.startTime(7), proc.namespace(7, 'user'), proc.smaps(7), proc.cgroup(7)]).toEqual([
    null,
    null,
    '',
    null,
  ]);
  expect(proc.maySwap(7)).toBe(true);
});

test('a name in parentheses confuses nobody', () => {
  file('proc/42/stat', `42 (a) R (b) ) S 17 ${'0 '.repeat(17)}4711 0\n`);
  const proc = new ProcFolder(root);
  expect([proc.parent(42), proc.startTime(42)]).toEqual([17, '4711']);
});
