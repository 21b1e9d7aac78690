import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { EventType, HostEvent } from '../src/controller/api.js';
import type { PartialPolicy } from '../src/policy/policy.js';
import { Bench, until } from './support/controller.js';
import type { Python } from './support/python.js';
import { attribute, readSpans, type Span } from './support/spans.js';

let bench: Bench;
let python: Python;
const start = async (policy: PartialPolicy = {}): Promise<void> => {
  bench = await Bench.start({}, policy);
  python = await bench.python();
  await bench.controller.putSandbox('one', { pids: [python.pid] });
};
beforeEach(() => start());
afterEach(() => bench.stop());

const send = (type: EventType, more: Partial<HostEvent> = {}): void =>
  bench.controller.event('one', { type, ...more });
const sandbox = () => bench.controller.getSandbox('one');
const asked = (...requests: string[]) => until(() => bench.pager.asked.join() === requests.join());

/** What was exported; windows in their order. */
function exported(): { windows: Span[]; childrenOf: (span: Span) => Span[] } {
  const spans = readSpans(`${bench.folder}/spans`);
  const windows = spans.filter(({ name }) => name === 'agentzip.window');
  windows.sort((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)));
  return { windows, childrenOf: (span) => spans.filter(({ parentSpanId }) => parentSpanId === span.spanId) };
}

test('a window opens with the request and closes with the first token', async () => {
  expect((await sandbox()).openWindow).toBeNull();
  const before = Date.now();
  send('llm_request_sent');
  await asked('openWindow one');
  expect(await sandbox()).toMatchObject({ phase: 'llm_wait', windows: 1, lastWindow: null });
  const { openWindow } = await sandbox();
  expect(openWindow?.openedAt).toBeGreaterThanOrEqual(before);
  expect(openWindow?.elapsedMs).toBeLessThanOrEqual(Date.now() - before);
  send('llm_first_token');
  await asked('openWindow one', 'closeWindow one');
  await until(async () => (await sandbox()).lastWindow !== null);
  const { openedAt } = openWindow ?? {};
  expect(await sandbox()).toMatchObject({
    ...{ phase: 'llm_streaming', openWindow: null },
    lastWindow: { reason: 'first_token', openedAt },
  });
});

test('a second request changes nothing while the window is open', async () => {
  send('llm_request_sent');
  send('llm_request_sent');
  await asked('openWindow one');
  send('tool_start');
  await asked('openWindow one', 'closeWindow one');
  expect((await sandbox()).windows).toBe(1);
});

test('a tool that starts ends the window too', async () => {
  send('llm_request_sent');
  send('tool_start');
  await until(async () => (await sandbox()).lastWindow?.reason === 'tool_start');
});

test('a wait that is expected to be short is left alone', async () => {
  send('llm_request_sent', { expectedMs: 50 });
  await sleep(50);
  expect((await sandbox()).windows).toBe(0);
  send('llm_request_sent', { expectedMs: 1000 });
  await asked('openWindow one');
});

test('a sandbox that ends in mid window ends it, and is forgotten', async () => {
  send('llm_request_sent');
  await asked('openWindow one');
  await python.stop();
  await asked('openWindow one', 'closeWindow one', 'forget one');
  expect(await sandbox()).toMatchObject({ pids: [], lastWindow: { reason: 'exit' } });
  await bench.controller.deleteSandbox('one');
});

test('a sandbox that had ended before opens no window at the pager', async () => {
  await python.stop();
  send('llm_request_sent');
  await until(async () => (await sandbox()).lastWindow?.reason === 'exit');
  expect(bench.pager.asked).toEqual([]);
});

test('between pre-pause and post-resume nothing is paged out', async () => {
  send('llm_request_sent');
  await asked('openWindow one');
  await bench.controller.prePause('one');
  await asked('openWindow one', 'closeWindow one');
  send('llm_request_sent');
  await sleep(50);
  expect((await sandbox()).windows).toBe(1);
  bench.controller.postResume('one');
  send('llm_request_sent');
  await until(async () => (await sandbox()).windows === 2);
});

test('disabling ends windows and opens no more', async () => {
  send('llm_request_sent');
  await asked('openWindow one');
  bench.controller.disable();
  await until(async () => (await sandbox()).lastWindow?.reason === 'shutdown');
  send('llm_request_sent');
  await sleep(50);
  expect(await sandbox()).toMatchObject({ windows: 1 });
  expect((await bench.controller.status()).enabled).toBe(false);
});

test('deleting a sandbox in mid window ends it and forgets its slots', async () => {
  send('llm_request_sent');
  await asked('openWindow one');
  await bench.controller.deleteSandbox('one');
  expect(bench.pager.asked).toEqual(['openWindow one', 'closeWindow one', 'forget one']);
});

test('draining ends windows before the pager is asked', async () => {
  send('llm_request_sent');
  await asked('openWindow one');
  await bench.controller.drain();
  expect(bench.pager.asked).toEqual(['openWindow one', 'closeWindow one', 'drain']);
});

/** Streams for so long in each turn; returns how long after the first token each prefetch began, ms. */
async function prefetchDelays(...streams: number[]): Promise<number[]> {
  for (const streamMs of streams) {
    const before = bench.pager.asked.length;
    // Said, since such waits would soon be left alone for what they last.
    send('llm_request_sent', { expectedMs: 1000 });
    await until(() => bench.pager.asked.length > before);
    send('llm_first_token');
    await sleep(streamMs);
    send('tool_start');
    await sleep(50); // the tool runs; another request at once would call the prefetch off
  }
  await until(async () => (await sandbox()).lastWindow?.reason === 'first_token');
  await bench.close();
  const { windows, childrenOf } = exported();
  return windows.map((window) => {
    const [prefetch] = childrenOf(window).filter(({ name }) => name === 'agentzip.prefetch');
    return Number(BigInt(prefetch.startTimeUnixNano) - BigInt(window.endTimeUnixNano)) / 1e6;
  });
}

test('a prefetch waits until the response ends or a tool starts', async () => {
  for (const delay of await prefetchDelays(500, 500)) {
    expect(delay).toBeGreaterThan(400);
    expect(delay).toBeLessThan(700);
  }
});

test('it can begin when the stream is about to end, and no later than a tool starts', async () => {
  await bench.stop();
  await start({ prefetch: { start: 'predicted' } });
  // The first four tell how long streams are; what they are then expected to last the sixth does not.
  const delays = await prefetchDelays(900, 900, 900, 900, 900, 300);
  for (const delay of delays.slice(0, 4)) expect(delay).toBeLessThan(200);
  expect(delays[4]).toBeGreaterThan(400);
  expect(delays[4]).toBeLessThan(890);
  expect(delays[5]).toBeGreaterThan(200);
  expect(delays[5]).toBeLessThan(550);
});

test('a window that is over is told of at once, though its prefetch waits', async () => {
  send('llm_request_sent');
  await asked('openWindow one');
  send('llm_first_token');
  await until(async () => (await sandbox()).lastWindow?.reason === 'first_token');
  expect((await sandbox()).phase).toBe('llm_streaming');
});

test('a window is a span with its steps as children', async () => {
  send('llm_request_sent', { expectedMs: 3000 });
  await asked('openWindow one');
  await sleep(100);
  send('llm_first_token');
  await until(async () => (await sandbox()).lastWindow !== null);
  await bench.close();
  const { windows, childrenOf } = exported();
  const [window] = windows;
  const steps = childrenOf(window).map(({ name }) => name);
  expect(steps.sort()).toEqual(['agentzip.pageout', 'agentzip.prefetch', 'agentzip.refine']);
  expect(attribute(window, 'agentzip.window.end_reason')).toBe('first_token');
  expect(attribute(window, 'agentzip.window.expected_ms')).toBe(3000);
  expect(attribute(window, 'sandbox.id')).toBe('one');
  const events = (window.events ?? []).map(({ name }) => name);
  expect(events[0]).toBe('request');
  expect(events.at(-1)).toBe('first_token');
});
