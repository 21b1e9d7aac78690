import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RefineResult } from '../src/pager/protocol.js';
import { AgentZipClient } from '../src/plugin/client.js';
import { DrainGate } from '../src/plugin/drain-gate.js';
import { ControlServer } from '../src/plugin/server.js';
import { ask } from './support/api-description.js';
import { Bench, until } from './support/controller.js';
import type { Python } from './support/python.js';
import { NO_REFINING } from './support/scripted-pager.js';

/** A real controller and server; the pager answers nonsense about the sandbox `bad`. */
let bench: Bench;
let server: ControlServer;
let client: AgentZipClient;
let socketPath: string;
let good: Python;
let bad: Python;
const internal: string[] = [];
beforeEach(async () => {
  bench = await Bench.start({
    closeWindow: ({ owner }) => (owner === 'bad' ? ({} as RefineResult) : NO_REFINING),
  });
  const { controller, folder } = bench;
  socketPath = `${folder}/agentzip.sock`;
  const options = { socketPath, mode: 0o600, maxBodyKiB: 4 };
  server = await ControlServer.start(
    { api: controller, gate: new DrainGate(controller) },
    { ...options, onInternalError: ({ message }) => internal.push(message) },
  );
  client = new AgentZipClient(socketPath);
  [good, bad] = [await bench.python(), await bench.python()];
  await client.putSandbox('good', { pids: [good.pid], tenant: 'acme' });
  await client.putSandbox('bad', { pids: [bad.pid], tenant: 'evil' });
});
afterEach(async () => {
  client.close();
  await server.close();
  await bench.stop();
  internal.length = 0;
});

/** A whole turn of the sandbox `good`. */
async function turn(): Promise<void> {
  const { windows } = await client.getSandbox('good');
  await client.event('good', { type: 'llm_request_sent', expectedMs: 60_000 });
  await until(() => bench.pager.asked.includes('openWindow good'));
  await client.event('good', { type: 'llm_first_token' });
  await until(async () => (await client.getSandbox('good')).lastWindow?.reason === 'first_token');
  expect(await client.getSandbox('good')).toMatchObject({ windows: windows + 1, pids: [good.pid] });
}

type Call = [method: string, path: string, body?: unknown];
const box = '/v1/sandboxes';
const CALLS: [name: string, status: number, call: () => Call][] = [
  ['claims its process', 409, () => ['PUT', `${box}/other`, { pids: [good.pid] }]],
  ['claims both processes', 409, () => ['PUT', `${box}/other`, { pids: [bad.pid, good.pid] }]],
  ['registers it as something else', 400, () => ['PUT', `${box}/good`, { pids: [bad.pid], tenant: 'evil' }]],
  ['takes AgentZip for a sandbox', 400, () => ['PUT', `${box}/other`, { pids: [process.pid] }]],
  ['names a template that is none', 404, () => ['PUT', `${box}/other`, { pids: [good.pid], template: 't' }]],
  ['captures a process that is none', 400, () => ['PUT', '/v1/templates/t', { pid: 4_000_000 }]],
  ['gives a pack that is none', 400, () => ['PUT', '/v1/templates/t', { pack: '/etc/passwd' }]],
  ['sends an event that is none', 400, () => ['POST', `${box}/good/events`, { type: 'lunch' }]],
  ['sends an event of nobody', 404, () => ['POST', `${box}/none/events`, { type: 'tool_start' }]],
  ['sends a body without end', 413, () => ['PUT', `${box}/other`, `{"cgroup": "${'x'.repeat(10_000)}`]],
  ['deletes nobody', 404, () => ['DELETE', `${box}/none`]],
];

test.each(CALLS)('a sandbox goes on as before when a host %s', async (_, status, call) => {
  const before = await client.getSandbox('good');
  const reply = await ask(socketPath, ...call());
  expect(reply.status, reply.text).toBe(status);
  expect(await client.getSandbox('good')).toEqual(before);
  expect((await client.status()).sandboxes.map(({ id }) => id)).toEqual(['good', 'bad']);
  await turn();
  expect(internal).toEqual([]);
});

test('a sandbox goes on while all of this is asked at once, in the midst of its window', async () => {
  await client.event('good', { type: 'llm_request_sent', expectedMs: 60_000 });
  await until(() => bench.pager.asked.includes('openWindow good'));
  const replies = await Promise.all(CALLS.map(([, , call]) => ask(socketPath, ...call())));
  expect(replies.map(({ status }) => status)).toEqual(CALLS.map(([, status]) => status));
  const { lastWindow, phase, windows } = await client.getSandbox('good');
  expect({ lastWindow, phase, windows }).toEqual({ lastWindow: null, phase: 'llm_wait', windows: 1 });
  await client.event('good', { type: 'llm_first_token' });
  await until(async () => (await client.getSandbox('good')).lastWindow !== null);
});

test('what fails inside for one sandbox stays with it', async () => {
  await client.event('bad', { type: 'llm_request_sent', expectedMs: 60_000, traceparent: 'nonsense' });
  await until(() => bench.pager.asked.includes('openWindow bad'));
  await client.event('bad', { type: 'llm_first_token' });
  await turn();
  await bad.stop();
  await until(async () => (await client.getSandbox('bad')).pids.length === 0);
  await client.deleteSandbox('bad');
  await turn();
});
