import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { cgroupMounts, cgroupPids, parseCgroupMounts, resolveCgroup } from '../src/memory/cgroup.js';
import { Python } from './support/python.js';

const MOUNTINFO = `30 22 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 30 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
36 30 0:33 / /sys/fs/cgroup/cpu\\040sets rw,relatime - cgroup cgroup rw,cpu,cpuset
40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`;

test('mounts of both versions are found wherever they are', () => {
  expect(parseCgroupMounts(MOUNTINFO, () => false)).toEqual([
    { version: 1, path: '/sys/fs/cgroup/memory', memory: true },
    { version: 1, path: '/sys/fs/cgroup/cpu sets', memory: false },
    { version: 2, path: '/sys/fs/cgroup/unified', memory: false },
  ]);
  const v2 = parseCgroupMounts('1 2 0:1 / /cg rw - cgroup2 cgroup2 rw', (path) => path === '/cg');
  expect(v2).toEqual([{ version: 2, path: '/cg', memory: true }]);
});

const mount = cgroupMounts().find(({ memory }) => memory);
const name = `agentzip-test-cgroup-${process.pid}`;
const made: string[] = [];
let python: Python | undefined;
afterEach(async () => {
  await python?.stop();
  for (const folder of made.splice(0).reverse()) rmdirSync(folder);
});

function make(path: string): string {
  const folder = `${mount!.path}/${path}`;
  mkdirSync(folder);
  made.push(folder);
  return folder;
}

test.skipIf(mount === undefined)('a cgroup is named by its path below the mount or from the root', () => {
  const folder = make(name);
  expect(resolveCgroup(name)).toBe(folder);
  expect(resolveCgroup(`/${name}/`)).toBe(folder);
  expect(resolveCgroup(folder)).toBe(folder);
});

test.skipIf(mount === undefined)('a name can not climb out of the mount', () => {
  expect(resolveCgroup('../../../etc')).toBeNull();
  expect(resolveCgroup('/etc')).toBeNull();
  expect(resolveCgroup('.')).toBeNull();
  expect(resolveCgroup('')).toBeNull();
  expect(resolveCgroup(`${name}-absent`)).toBeNull();
});

test.skipIf(mount === undefined)('processes of a cgroup and of those below it are listed', async () => {
  const folder = make(name);
  const below = make(`${name}/inner`);
  expect(cgroupPids(folder)).toEqual([]);
  python = await Python.start();
  writeFileSync(`${below}/cgroup.procs`, String(python.pid));
  expect(cgroupPids(folder)).toEqual([python.pid]);
  await python.stop();
  expect(cgroupPids(folder)).toEqual([]);
});

test('a cgroup that is gone holds nothing', () => {
  expect(cgroupPids('/sys/fs/cgroup/agentzip-test-absent')).toEqual([]);
});
