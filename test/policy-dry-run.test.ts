import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PAGE } from '../src/native/libc.js';
import { AgentZipClient } from '../src/plugin/client.js';
import { agentzip, COMMAND } from './support/command.js';
import { Bench, until } from './support/controller.js';
import { Python } from './support/python.js';
import { attribute, readSpans } from './support/spans.js';

/** `agentzip run --dry-run` over a real sandbox. */
let folder: string;
let python: Python;
let client: AgentZipClient;
let child: ChildProcess | null;
let output = '';
let exited: Promise<number> | null;
beforeEach(async () => {
  child = exited = null;
  folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  python = await Python.start();
  await python.area(4096);
  await python.run('touch(0, 0, 4096)');
  const policy = {
    otel: { file: `${folder}/spans` },
    overrides: [{ match: { sandbox: 'off' }, set: { mode: 'off' } }],
  };
  writeFileSync(`${folder}/policy.json`, JSON.stringify(policy));
  client = new AgentZipClient(`${folder}/run/agentzip.sock`);
});
afterEach(async () => {
  client.close();
  if (child?.exitCode === null) child.kill('SIGTERM');
  await exited;
  await python.stop();
  rmSync(folder, { recursive: true });
});

async function start(): Promise<void> {
  const dirs = ['--runtime-dir', `${folder}/run`, '--state-dir', `${folder}/state`];
  const words = [COMMAND, 'run', '--dry-run', '--policy', `${folder}/policy.json`, ...dirs];
  child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  exited = once(child, 'exit').then(([code]) => code as number);
  output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  await expect.poll(() => output, { timeout: 20_000 }).toContain('agentzip: ready');
}

/** What a page-out, a device or a template would leave. */
const traces = () => [
  readFileSync('/proc/swaps', 'utf8'),
  readFileSync('/proc/mounts', 'utf8').includes(folder),
  /VmSwap:\s+(\d+)/.exec(readFileSync(`/proc/${python.pid}/status`, 'utf8'))?.[1],
];

test('a dry run says what would be done, and does nothing', async () => {
  const before = traces();
  await start();
  expect(output).toContain('dry run: nothing is compressed, and no swap device is made');
  const template = await client.putTemplate('t', { pid: python.pid, tenant: 'acme' });
  expect(template).toMatchObject({ pages: 0, residentBytes: 0 });
  await client.putSandbox('box', { pids: [python.pid], template: 't', tenant: 'acme' });
  const { ownedBytes } = await client.getSandbox('box');
  await client.event('box', { type: 'llm_request_sent', expectedMs: 100 });
  await client.event('box', { type: 'tool_start' });
  await client.event('box', { type: 'llm_request_sent', expectedMs: 5_000 });
  await sleep(300);
  await client.event('box', { type: 'llm_first_token' });

  const status = await client.getSandbox('box');
  expect(status).toMatchObject({ windows: 0, skippedWindows: 1, observedWindows: 1, swappedBytes: 0 });
  expect(status.lastSkip).toBe('expected_short');
  const would = status.wouldPageOut?.bytes ?? 0;
  expect(would).toBeGreaterThanOrEqual(4096 * PAGE);
  expect(would).toBeLessThanOrEqual(ownedBytes);
  expect(status.wouldPageOut).toMatchObject({ expectedMs: 5_000, predictedMs: 5_000 });
  const { dryRun, pager } = await client.status();
  expect([dryRun, pager.device, pager.usedSlots]).toEqual([true, 'none', 0]);
  expect((await client.explain('box')).decisions[0].because).toMatch(/this is a dry run/);
  expect(output).toMatch(/would page out \d+\.\d MiB of sandbox box; expected wait: 5\.0 s/);
  expect(output).toContain('would skip a wait of sandbox box because expected_short');
  expect(traces()).toEqual(before);

  const drained = await agentzip(['drain', '--runtime-dir', `${folder}/run`]);
  expect([drained.code, await exited]).toEqual([0, 0]);
  const [span] = readSpans(`${folder}/spans`).filter(({ name }) => name === 'agentzip.window');
  expect(attribute(span, 'agentzip.dry_run')).toBe(1);
  expect(Number(attribute(span, 'agentzip.bytes.in'))).toBe(would);
  expect(attribute(span, 'agentzip.window.end_reason')).toBe('first_token');
  expect(readdirSync(folder).sort()).toEqual(['policy.json', 'run', 'spans']);
  expect(readdirSync(`${folder}/run`)).toEqual(['lock']);
});

test('a sandbox whose mode is off is not even looked at, and a change of the policy starts nothing', async () => {
  await start();
  await client.putSandbox('off', { pids: [python.pid] });
  await client.event('off', { type: 'llm_request_sent', expectedMs: 5_000 });
  expect(await client.getSandbox('off')).toMatchObject({ observedWindows: 0, skippedWindows: 0 });
  await client.event('off', { type: 'tool_start' });
  writeFileSync(`${folder}/policy.json`, JSON.stringify({ otel: { file: `${folder}/spans` } }));
  child?.kill('SIGHUP');
  await expect.poll(async () => (await client.status()).policy.changes).toBe(1);
  await client.event('off', { type: 'llm_request_sent', expectedMs: 5_000 });
  expect(await client.getSandbox('off')).toMatchObject({ observedWindows: 1, windows: 0 });
});

test('mode observe does the same beside a pager, and a change to proactive acts', async () => {
  const bench = await Bench.start({}, { mode: 'observe' });
  try {
    await bench.controller.putSandbox('one', { pids: [python.pid] });
    bench.controller.event('one', { type: 'llm_request_sent', expectedMs: 5_000 });
    const status = await bench.controller.getSandbox('one');
    expect(status).toMatchObject({ windows: 0, observedWindows: 1 });
    expect(status.wouldPageOut?.bytes).toBeGreaterThanOrEqual(4096 * PAGE);
    bench.controller.event('one', { type: 'tool_start' });
    expect(bench.pager.asked).toEqual([]);
    const { current } = bench.live;
    bench.live.apply({ ...current, mode: 'proactive' });
    bench.controller.event('one', { type: 'llm_request_sent', expectedMs: 5_000 });
    await until(() => bench.pager.asked.includes('openWindow one'));
  } finally {
    await bench.stop();
  }
});
