import { expect, test } from 'vitest';
import { findProcesses, type ProcessSpec, type ProcessTable } from '../src/hosts/plain.js';

const own = { pids: [1000, 1001], userNamespace: 'user:[1]' };
/** The one above all others. */
const initial = 'user:[4026531837]';
const TREES: Record<number, number[]> = { 10: [10, 11, 12], 1: [1, 10, 1000], 30: [30] };

const table: ProcessTable = {
  tree: (roots) => roots.flatMap((pid) => TREES[pid] ?? []),
  exists: (pid) => pid in TREES,
  userNamespace: (pid) => (pid === 30 ? 'user:[2]' : 'user:[1]'),
  cgroupFolder: (name) => (name === 'box' || name === 'empty' ? `/cgroup/${name}` : null),
  cgroupPids: (folder) => (folder === '/cgroup/box' ? [10, 11] : []),
};
const find = (spec: ProcessSpec) => findProcesses(spec, table, own);

test('a sandbox named by pids has their descendants', () => {
  expect(find({ pids: [10] }).first).toEqual([10, 11, 12]);
});

test('later only processes known to be its own count as roots', () => {
  expect(find({ pids: [10] }).pids([])).toEqual([]);
  expect(find({ pids: [10] }).pids([10])).toEqual([10, 11, 12]);
});

test('a sandbox named by a cgroup has what is in it', () => {
  const membership = find({ cgroup: 'box' });
  expect(membership.first).toEqual([10, 11]);
  expect(membership.pids([])).toEqual([10, 11]);
});

test.each<[string, ProcessSpec, string]>([
  ['neither pids nor cgroup', {}, 'AZ_BAD_REQUEST'],
  ['both', { pids: [10], cgroup: 'box' }, 'AZ_BAD_REQUEST'],
  ['no pid', { pids: [] }, 'AZ_BAD_REQUEST'],
  ['a pid of no process', { pids: [10, 99] }, 'AZ_NO_SUCH_PROCESS'],
  ['a tree that holds AgentZip', { pids: [1] }, 'AZ_OWN_PROCESS'],
  ["another user's namespace", { pids: [30] }, 'AZ_FOREIGN_NAMESPACE'],
  ['no such cgroup', { cgroup: 'absent' }, 'AZ_NO_SUCH_CGROUP'],
  ['a cgroup without processes', { cgroup: 'empty' }, 'AZ_NO_SUCH_CGROUP'],
])('%s is refused', (_what, spec, code) => {
  expect(() => find(spec)).toThrow(expect.objectContaining({ code }));
});

test('who has found processes in our own table may name those of user namespaces below ours, and these only', () => {
  const spec = { pids: [30], nested: true };
  const inInitial: ProcessTable = { ...table, userNamespace: (pid) => (pid === 30 ? 'user:[2]' : initial) };
  const first = { ...own, userNamespace: initial };
  expect(findProcesses(spec, inInitial, first).first).toEqual([30]);
  const refused = expect.objectContaining({ code: 'AZ_FOREIGN_NAMESPACE' });
  expect(() => findProcesses({ pids: [30] }, inInitial, first)).toThrow(refused);
  // Elsewhere nobody tells which namespaces are below.
  expect(() => findProcesses(spec, table, own)).toThrow(refused);
  expect(() => findProcesses({ pids: [1], nested: true }, inInitial, first)).toThrow(
    expect.objectContaining({ code: 'AZ_OWN_PROCESS' }),
  );
});
