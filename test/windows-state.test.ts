import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { EVENT_TYPES } from '../src/controller/api.js';
import { isEventType, transition } from '../src/controller/phases.js';
import { MAX_WINDOW_MS, pause, Window } from '../src/controller/windows/window.js';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const open = (): Window => new Window({ type: 'llm_request_sent' });

test('a turn goes through its phases', () => {
  expect(EVENT_TYPES.map((type) => [type, transition(type).phase])).toEqual([
    ['llm_request_sent', 'llm_wait'],
    ['llm_first_token', 'llm_streaming'],
    ['llm_response_end', 'idle'],
    ['tool_start', 'tool_running'],
    ['tool_end', 'idle'],
  ]);
});

test('only a request opens a window; a token, an answer and a tool end it', () => {
  expect(EVENT_TYPES.filter((type) => transition(type).opens)).toEqual(['llm_request_sent']);
  expect(EVENT_TYPES.map((type) => transition(type).ends)).toEqual([
    null,
    'first_token',
    'first_token',
    'tool_start',
    null,
  ]);
});

test('names of other things are no event types', () => {
  expect(isEventType('tool_start')).toBe(true);
  expect(isEventType('toString')).toBe(false);
});

test('the first reason to end counts, and stops the clock', () => {
  const window = open();
  vi.advanceTimersByTime(4000);
  window.end('first_token');
  vi.advanceTimersByTime(1000);
  window.end('tool_start');
  expect(window).toMatchObject({ reason: 'first_token', open: false, durationMs: 4000 });
  expect(window.signal.aborted).toBe(true);
});

test('a wait nobody ends runs out of budget', () => {
  const window = open();
  vi.advanceTimersByTime(MAX_WINDOW_MS - 1);
  expect(window.open).toBe(true);
  vi.advanceTimersByTime(1);
  expect(window.reason).toBe('budget');
});

test('a pause lasts as long as it should, or until the window ends', async () => {
  const window = open();
  const ends: string[] = [];
  void pause(100, window.signal).then(() => ends.push('short'));
  void pause(5000, window.signal).then(() => ends.push('long'));
  await vi.advanceTimersByTimeAsync(99);
  expect(ends).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ends).toEqual(['short']);
  window.end('tool_start');
  await vi.advanceTimersByTimeAsync(0);
  expect(ends).toEqual(['short', 'long']);
  expect(vi.getTimerCount()).toBe(0);
});
