import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Pauses, pausesFile } from '../src/controller/sandboxes/pauses.js';
import { Bench } from './support/controller.js';

let folder: string;
const benches: Bench[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentzip-test-'));
});
afterEach(async () => {
  for (const bench of benches.splice(0)) await bench.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A controller with the runtime directory of the one before, which was killed: it has ended nothing. */
async function next(): Promise<Bench> {
  const bench = await Bench.start({}, {}, [], folder);
  benches.push(bench);
  return bench;
}

/** Does a wait open a window? */
async function isUsed({ controller }: Bench, id: string): Promise<boolean> {
  controller.event(id, { type: 'llm_request_sent' });
  controller.event(id, { type: 'llm_first_token' });
  return (await controller.getSandbox(id)).windows > 0;
}

const paused = (): [string, { pid: number }[]][] => JSON.parse(readFileSync(pausesFile(folder), 'utf8'));

test('a sandbox that is paused is so for the next controller too, until it is resumed', async () => {
  const first = await next();
  const { pid } = await first.python();
  await first.controller.putSandbox('one', { pids: [pid] });
  await first.controller.prePause('one');
  expect(paused()).toMatchObject([['one', [{ pid }]]]);

  const second = await next();
  await second.controller.putSandbox('one', { pids: [pid] });
  expect(await isUsed(second, 'one')).toBe(false);
  second.controller.postResume('one');
  expect(await isUsed(second, 'one')).toBe(true);
  expect(paused()).toEqual([]);

  const third = await next();
  await third.controller.putSandbox('one', { pids: [pid] });
  expect(await isUsed(third, 'one')).toBe(true);
});

test('what is resumed as another process under the same name is not paused', async () => {
  const first = await next();
  const [before, after] = [await first.python(), await first.python()];
  await first.controller.putSandbox('one', { pids: [before.pid] });
  await first.controller.prePause('one');
  const second = await next();
  await second.controller.putSandbox('one', { pids: [after.pid] });
  expect(await isUsed(second, 'one')).toBe(true);
});

test('a sandbox that is let go is not paused any more', async () => {
  const bench = await next();
  const { controller } = bench;
  const { pid } = await bench.python();
  await controller.putSandbox('one', { pids: [pid] });
  await controller.prePause('one');
  await controller.deleteSandbox('one');
  expect(paused()).toEqual([]);
});

test('a pause that can not be noted fails, and a file that can not be read is none', () => {
  writeFileSync(pausesFile(folder), 'nonsense');
  expect(() => new Pauses(folder)).not.toThrow();
  const gone = new Pauses(join(folder, 'gone'));
  const sandbox = { id: 'one', members: new Map(), paused: false };
  expect(() => gone.begin(sandbox)).toThrow(expect.objectContaining({ code: 'AZ_PAUSE_WRITE' }));
  expect(sandbox.paused).toBe(true);
});
