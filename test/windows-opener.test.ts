import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { HostEvent } from '../src/controller/api.js';
import type { Context } from '../src/controller/context.js';
import { Events } from '../src/controller/events.js';
import type { Observer } from '../src/controller/sandboxes/observer.js';
import { Policies } from '../src/controller/policies.js';
import { Predictions } from '../src/controller/windows/predictions.js';
import { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import { WindowOpener } from '../src/controller/windows/window-opener.js';
import type { WindowRunner } from '../src/controller/windows/window-runner.js';
import { withDefaults } from '../src/policy/defaults.js';
import { LivePolicy } from '../src/policy/live.js';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** An opener over a runner that notes what it is given, on a host that is short of memory when told. */
function start(mode: 'proactive' | 'pressure') {
  const sandbox = new Sandbox('one', { pids: [1] }, { pids: () => [] } as never, 'domain', 1);
  const opened: [HostEvent, number | null][] = [];
  const skipped: string[] = [];
  const host = { short: false };
  const context = {
    ...{
      policies: new Policies(new LivePolicy(withDefaults({ mode }))),
      predictions: new Predictions(),
      hostPressure: host,
    },
    ...{ registry: { all: () => [sandbox] }, events: new Events() },
    metrics: { windowSkipped: (reason: string) => skipped.push(reason) },
  } as unknown as Context;
  const runner = {
    open: (_: Sandbox, event: HostEvent, predictedMs: number | null) => {
      sandbox.openWindow(event, predictedMs);
      opened.push([event, predictedMs]);
    },
  } as unknown as WindowRunner;
  const opener = new WindowOpener(context, runner, {} as Observer, () => true);
  const wait = (event: Partial<HostEvent> = {}): void => {
    const request: HostEvent = { type: 'llm_request_sent', ...event };
    sandbox.waited(request, false);
    opener.use(sandbox, request);
  };
  return { sandbox, opener, opened, skipped, host, context, wait };
}

test('a window is predicted to last as the host says, else as half of those like it did', () => {
  const { opened, wait, sandbox, context } = start('proactive');
  for (let i = 0; i < 4; i++) context.predictions.waited(sandbox, 'large', 5000);
  wait({ expectedMs: 7000 });
  sandbox.endWindow('first_token');
  wait({ model: 'large' });
  expect(opened.map(([, predictedMs]) => predictedMs)).toEqual([7000, 5000]);
});

test('while a window is open, or the sandbox paused, no other opens and none is skipped', () => {
  const { opened, skipped, wait, sandbox } = start('proactive');
  wait();
  wait();
  sandbox.endWindow('first_token');
  sandbox.paused = true;
  wait({ expectedMs: 1 });
  expect([opened.length, skipped.length, sandbox.skippedWindows]).toEqual([1, 0, 0]);
});

test('waits under way are used when memory becomes short, for what is left of them', () => {
  const { opened, skipped, wait, sandbox, opener, host } = start('pressure');
  wait({ expectedMs: 10_000, model: 'large' });
  expect([opened, skipped]).toEqual([[], ['memory_suffices']]);
  vi.advanceTimersByTime(4000);
  host.short = true;
  opener.useAll();
  opener.useAll();
  expect(opened).toEqual([[expect.objectContaining({ model: 'large', expectedMs: 6000 }), 6000]]);
  expect(sandbox.skippedWindows).toBe(1);
});

test('but not those that are nearly over, nor sandboxes that do not wait', () => {
  const { opened, wait, sandbox, opener, host } = start('pressure');
  opener.useAll();
  wait({ expectedMs: 5000 });
  vi.advanceTimersByTime(4950);
  host.short = true;
  opener.useAll();
  sandbox.waited({ type: 'llm_first_token' }, true);
  opener.useAll();
  expect(opened).toEqual([]);
});
