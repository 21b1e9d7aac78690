import { afterEach, beforeEach, expect, test } from 'vitest';
import { AgentZip } from '../src/plugin/agentzip.js';
import type { Running } from '../src/plugin/lifecycle.js';
import { Bench, until } from './support/controller.js';

let bench: Bench;
let agentzip: AgentZip;
beforeEach(async () => {
  bench = await Bench.start();
  const { controller } = bench;
  agentzip = new AgentZip({ api: controller, events: controller.events } as unknown as Running);
});
afterEach(() => bench.stop());

test('a host in process hears of phases, windows and skipped waits', async () => {
  const heard: unknown[] = [];
  for (const name of ['phase', 'windowOpened', 'windowEnded', 'windowSkipped'] as const)
    agentzip.on(name, (event) => heard.push([name, event]));
  const { pid } = await bench.python();
  const box = await agentzip.sandbox('one', { pids: [pid] });
  box.requestSent({ expectedMs: 5 });
  box.requestSent({ expectedMs: 9000 });
  box.firstToken();
  await until(() => heard.length === 5);
  const window = (await box.status()).lastWindow;
  expect(heard).toEqual([
    ['phase', { sandbox: 'one', phase: 'llm_wait', source: 'host' }],
    ['windowSkipped', { sandbox: 'one', reason: 'expected_short' }],
    ['windowOpened', { sandbox: 'one', expectedMs: 9000, predictedMs: 9000 }],
    ['phase', { sandbox: 'one', phase: 'llm_streaming', source: 'host' }],
    ['windowEnded', { sandbox: 'one', window: { ...window, prefetchedPages: 0 } }],
  ]);
});

test('a listener that throws or rejects is told to the host, and changes nothing', async () => {
  const failures: unknown[] = [];
  bench.controller.events.onFailure = (error) => failures.push((error as Error).message);
  agentzip.on('phase', () => {
    throw new Error('thrown');
  });
  const stop = agentzip.on('phase', () => Promise.reject(new Error('rejected')));
  const { pid } = await bench.python();
  const box = await agentzip.sandbox('one', { pids: [pid] });
  box.requestSent();
  await until(() => bench.pager.asked.includes('openWindow one'));
  await until(() => failures.length === 2);
  stop();
  box.toolStart();
  await until(async () => (await box.status()).lastWindow?.reason === 'tool_start');
  expect(failures).toEqual(['thrown', 'rejected', 'thrown']);
});

test('what a host gives in process is checked as on the socket', async () => {
  await expect(agentzip.sandbox('a/b', { pids: [1] })).rejects.toMatchObject({ code: 'AZ_BAD_REQUEST' });
  await expect(agentzip.sandbox('one', {})).rejects.toMatchObject({ code: 'AZ_BAD_REQUEST' });
  await expect(agentzip.template('t', { pid: 0 })).rejects.toMatchObject({ code: 'AZ_BAD_REQUEST' });
  const { pid } = await bench.python();
  const box = await agentzip.sandbox('one', { pids: [pid] });
  expect(() => box.requestSent({ expectedMs: -1 })).toThrow(
    expect.objectContaining({ code: 'AZ_BAD_REQUEST' }),
  );
  expect((await agentzip.sandboxes()).map(({ id }) => id)).toEqual(['one']);
  await box.remove();
  expect(await agentzip.sandboxes()).toEqual([]);
});
