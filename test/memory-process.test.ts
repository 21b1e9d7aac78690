import { afterEach, expect, test } from 'vitest';
import { identify, isAlive, processTree, userNamespace } from '../src/memory/process.js';
import { Python } from './support/python.js';

let python: Python | undefined;
afterEach(() => python?.stop());

test('a tree holds descendants, each once', async () => {
  python = await Python.start();
  await python.area(2);
  const children = [Number(await python.run('fork()')), Number(await python.run('fork()'))];
  const tree = processTree([python.pid, children[0]]);
  expect(tree.sort()).toEqual([python.pid, ...children].sort());
});

test('a process that has ended is not the one that takes its pid', async () => {
  python = await Python.start();
  const id = identify(python.pid)!;
  expect(isAlive(id)).toBe(true);
  expect(isAlive({ ...id, startTime: id.startTime + 1 })).toBe(false);
  await python.stop();
  expect(isAlive(id)).toBe(false);
  expect(identify(id.pid)).toBeNull();
  expect(processTree([id.pid])).toEqual([]);
});

test('a zombie counts as gone', async () => {
  python = await Python.start();
  const zombie = Number(await python.run('(lambda p: p if p else os._exit(0))(os.fork())'));
  await python.run('__import__("time").sleep(0.1)');
  expect(identify(zombie)).toBeNull();
});

test('user namespaces are told apart', async () => {
  expect(userNamespace(process.pid)).toMatch(/^user:\[\d+\]$/);
  python = await Python.start();
  expect(userNamespace(python.pid)).toBe(userNamespace(process.pid));
  const { pid } = python;
  await python.stop();
  expect(userNamespace(pid)).toBeNull();
});
