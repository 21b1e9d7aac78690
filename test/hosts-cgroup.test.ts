import { mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CgroupAdapter, type CgroupOptions } from '../src/hosts/cgroup.js';
import { CgroupGlobs } from '../src/hosts/cgroup-globs.js';
import { cgroupMounts, maySwap, processCgroup } from '../src/memory/cgroup.js';
import { Bench, until } from './support/controller.js';
import { Python } from './support/python.js';

const ANY: CgroupOptions = {
  ...{ mode: 'reclaim', include: [], exclude: [], pattern: null, template: null, tenant: null },
};

/** A cgroup of this host's memory controller, and what was made below it. */
const MOUNT = cgroupMounts().find(({ memory }) => memory)!.path;
const TOP = `agentzip-test-hosts-${process.pid}`;
let pythons: Python[] = [];
let made: string[] = [];
let folder: string;

function cgroup(path: string): string {
  mkdirSync(`${MOUNT}/${path}`);
  made.push(`${MOUNT}/${path}`);
  return `${MOUNT}/${path}`;
}

async function pythonIn(path: string): Promise<Python> {
  const python = await Python.start();
  pythons.push(python);
  writeFileSync(`${cgroup(path)}/cgroup.procs`, String(python.pid));
  return python;
}

beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  cgroup(TOP);
});
afterEach(async () => {
  for (const python of pythons) await python.stop();
  for (const path of made.reverse()) await expect.poll(() => rmdirSync(path)).toBeUndefined();
  pythons = [];
  made = [];
  rmSync(folder, { recursive: true });
});

/** Folders as a cgroup file system shows them, with a process each. */
function layout(...paths: string[]): void {
  for (const path of paths) {
    mkdirSync(`${folder}/${path}`, { recursive: true });
    writeFileSync(`${folder}/${path}/cgroup.procs`, '1\n');
  }
}

test.each<[globs: string[], exclude: string[], matches: string[]]>([
  [['agents/*'], [], ['agents/a', 'agents/b']],
  [['agents/?'], ['agents/b'], ['agents/a']],
  [['**'], [], ['agents', 'kube']],
  [['**/box-*'], [], ['agents/a/box-1', 'kube/pod/x/box-2', 'kube/pod/x/box-3']],
  [['kube/**'], [], ['kube/pod']],
  [['**/box-*'], ['kube/pod/**'], ['agents/a/box-1']],
  [['agents/[ab]', 'agents/(a)', 'agents/.*'], [], []],
])('%j without %j are %j', (include, exclude, matches) => {
  layout('agents/a/box-1', 'agents/b', 'kube/pod/x/box-2', 'kube/pod/x/box-3/box-4');
  expect(new CgroupGlobs(include, exclude).walk(folder).matches).toEqual(matches);
});

test('a path says template and tenant, or the policy does', async () => {
  layout('agents/acme/py-1', 'agents/acme/nothing');
  const mounts = () => [{ version: 2 as const, path: folder, memory: true }];
  const pattern = '^agents/(?<tenant>[^/]+)/((?<template>[a-z]+)-\\d+)?';
  const options = { ...ANY, include: ['agents/*/*'], pattern, template: 'base' };
  const found = await new CgroupAdapter(options, mounts).find();
  expect(found.map(({ id, template, tenant }) => [id, template, tenant])).toEqual([
    ['cgroup:agents.acme.nothing', 'base', 'acme'],
    ['cgroup:agents.acme.py-1', 'py', 'acme'],
  ]);
});

test.each([
  ['0\n', null, 'observe', ['no_swap']],
  ['max\n', '0\n', 'observe', ['no_swap']],
  ['1048576\n', 'max\n', 'reclaim', []],
])('memory.swap.max %j, above it %j: %s', async (own, above, mode, hazards) => {
  layout('agents/a');
  writeFileSync(`${folder}/agents/a/memory.swap.max`, own);
  if (above !== null) writeFileSync(`${folder}/agents/memory.swap.max`, above);
  const mounts = () => [{ version: 2 as const, path: folder, memory: true }];
  const [found] = await new CgroupAdapter({ ...ANY, include: ['agents/*'] }, mounts).find();
  expect(found).toMatchObject({ mode, hazards });
  expect(maySwap(`${folder}/agents/a`, [{ version: 1, path: folder, memory: true }])).toBe(true);
});

test('the cgroup of a process is that of its memory', async () => {
  const python = await pythonIn(`${TOP}/a`);
  expect(processCgroup(python.pid)).toBe(`${MOUNT}/${TOP}/a`);
  expect(processCgroup(2 ** 22 + 1)).toBeNull();
});

test('version 2 is looked at in the same way, and its sandboxes can be registered', async () => {
  const mount = cgroupMounts().find(({ version }) => version === 2);
  expect(mount, 'a mount of cgroup version 2').toBeDefined();
  const top = `${mount!.path}/${TOP}`;
  for (const folder of mount!.memory ? [`${top}/v2`] : [top, `${top}/v2`]) {
    mkdirSync(folder);
    made.push(folder);
  }
  const python = await Python.start();
  pythons.push(python);
  writeFileSync(`${top}/v2/cgroup.procs`, String(python.pid));
  const adapter = new CgroupAdapter({ ...ANY, include: [`${TOP}/*`] }, () => [mount!]);
  const bench = await Bench.start({}, {}, [adapter]);
  try {
    const { sandboxes } = await bench.controller.status();
    expect(sandboxes).toMatchObject([{ id: `cgroup:${TOP}.v2`, pids: [python.pid], mode: 'reclaim' }]);
  } finally {
    await bench.stop();
  }
});

test('cgroups of this host become sandboxes when they come, and are let go when they end', async () => {
  const adapter = new CgroupAdapter({ ...ANY, include: [`${TOP}/*`], tenant: 'acme', template: 'python' });
  const first = await pythonIn(`${TOP}/a`);
  // An interval that the test would not survive: it is told of the second by inotify.
  const bench = await Bench.start({}, { hosts: { intervalMs: 600_000 } }, [adapter]);
  try {
    const ids = async (): Promise<string> =>
      (await bench.controller.status()).sandboxes.map(({ id }) => id).join();
    expect(await ids()).toBe(`cgroup:${TOP}.a`);
    const second = await pythonIn(`${TOP}/b`);
    await until(async () => (await ids()) === `cgroup:${TOP}.a,cgroup:${TOP}.b`);
    expect(await bench.controller.getSandbox(`cgroup:${TOP}.b`)).toMatchObject({
      ...{ pids: [second.pid], tenant: 'acme', template: 'python', host: 'cgroup', mode: 'reclaim' },
    });
    await first.stop();
    await expect.poll(() => rmdirSync(`${MOUNT}/${TOP}/a`)).toBeUndefined();
    made = made.filter((path) => !path.endsWith('/a'));
    await until(async () => (await ids()) === `cgroup:${TOP}.b`);
  } finally {
    await bench.stop();
  }
});
