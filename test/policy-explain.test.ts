import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, expect, test } from 'vitest';
import type { Decision } from '../src/controller/api.js';
import { loadPolicy } from '../src/policy/load.js';
import type { PartialPolicy } from '../src/policy/policy.js';
import { explanationText } from '../src/plugin/policy-explain.js';
import { Bench, until } from './support/controller.js';

let bench: Bench;
let folder: string | undefined;
afterEach(async () => {
  await bench.stop();
  if (folder !== undefined) rmSync(folder, { recursive: true });
  folder = undefined;
});

async function start(policy: PartialPolicy = {}, tenant: string | undefined = 'acme'): Promise<void> {
  bench = await Bench.start({}, policy);
  const { pid } = await bench.python();
  await bench.controller.putSandbox('one', { pids: [pid], tenant });
}

async function decision(what: string): Promise<Decision> {
  const { decisions } = await bench.controller.explain('one');
  return decisions.find((each) => each.what === what) as Decision;
}
const send = (type: 'llm_request_sent' | 'llm_first_token' | 'tool_start', expectedMs?: number): void =>
  bench.controller.event('one', { type, expectedMs });

test('of a sandbox that has done nothing it says what would be', async () => {
  await start();
  expect((await bench.controller.explain('one')).decisions).toEqual([
    { what: 'mode', value: 'proactive', because: 'mode of the policy', numbers: {} },
    {
      what: 'actuator',
      value: 'process_madvise',
      because: expect.stringContaining('paged out') as string,
      numbers: {},
    },
    { what: 'trust domain', value: ':one', because: 'trust.domain is tenant-template', numbers: {} },
    { what: 'template', value: null, because: 'its host named none', numbers: {} },
    expect.objectContaining({
      what: 'phase',
      value: 'unknown',
      because: expect.stringContaining('nobody tells'),
    }),
    { what: 'wait', value: null, because: 'none has begun yet', numbers: { leastMs: 300 } },
    expect.objectContaining({ what: 'last window', value: null }),
    { what: 'tier', value: 'direct', because: 'what goes out is in the store at once', numbers: {} },
    expect.objectContaining({ what: 'prefetch', value: 'on' }),
  ]);
});

test('of a wait that was left alone it gives the numbers that it was left alone by', async () => {
  await start();
  send('llm_request_sent', 200);
  expect(await decision('phase')).toMatchObject({ value: 'llm_wait', because: 'its host tells' });
  expect(await decision('wait')).toMatchObject({
    value: 'expected_short',
    because: expect.stringContaining('shorter than leastMs'),
    numbers: { expectedMs: 200, leastMs: 300, lowMs: null, costMs: null, memoryShort: false },
  });
  expect((await decision('last window')).numbers).toMatchObject({ windows: 0, skippedWindows: 1 });
});

test('of a window it tells how it ended and what it did', async () => {
  await start();
  send('llm_request_sent', 60_000);
  expect(await decision('wait')).toMatchObject({ value: 'window opened', numbers: { expectedMs: 60_000 } });
  await until(() => bench.pager.asked.includes('openWindow one'));
  send('llm_first_token');
  await until(async () => (await decision('last window')).value === 'first_token');
  expect((await decision('last window')).numbers).toMatchObject({ windows: 1, pagedOutPages: 0 });
});

test('what stops it is named: mode, pause, disabled', async () => {
  await start({ prefetch: { enabled: false } });
  await bench.controller.prePause('one');
  bench.controller.disable();
  expect((await decision('mode')).because).toBe(
    'mode of the policy; nothing goes out: AgentZip is disabled, or drains, it is paused',
  );
  expect(await decision('prefetch')).toMatchObject({ value: 'off', because: 'prefetch.enabled is false' });
});

test('overrides that match are named by file and line, with what they set', async () => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  const file = `${folder}/agentzip.yaml`;
  writeFileSync(
    file,
    'overrides:\n  - match: {tenant: "a*"}\n    set: {mode: observe}\n  - match: {tenant: b}\n    set: {mode: off}\n  - match: {sandbox: one}\n    set: {prefetch: {maxMiB: 7}}\n',
  );
  await start({ overrides: loadPolicy(file).overrides });
  const explanation = await bench.controller.explain('one');
  expect(explanation.overrides).toEqual([
    { at: `${file}:2`, match: { tenant: 'a*' }, set: { mode: 'observe' } },
    { at: `${file}:6`, match: { sandbox: 'one' }, set: { prefetch: { maxMiB: 7 } } },
  ]);
  expect(explanation.policy).toMatchObject({ mode: 'observe', prefetch: { maxMiB: 7, minUse: 0.2 } });
  expect(await decision('mode')).toMatchObject({
    value: 'observe',
    because: `override at ${file}:2; nothing goes out: the mode is observe`,
  });
  send('llm_request_sent', 60_000);
  expect(await decision('wait')).toMatchObject({ value: 'window would open' });
  const text = explanationText(await bench.controller.explain('one'));
  expect(text).toMatch(/^sandbox one\nmode +observe: override at .*\n/);
  expect(text).toMatch(
    /wait +window would open: nothing speaks against it\n +at \d+, .*expectedMs 60000, lowMs not known/,
  );
  expect(text).toContain(`  ${file}:6: {"sandbox":"one"} sets {"prefetch":{"maxMiB":7}}\n`);
});

test('nobody is explained who is not registered', async () => {
  await start();
  await expect(bench.controller.explain('none')).rejects.toMatchObject({ code: 'AZ_UNKNOWN_SANDBOX' });
});
