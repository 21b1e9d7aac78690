import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Phase } from '../src/controller/api.js';
import { cgroupMounts } from '../src/memory/cgroup.js';
import { Family } from './support/family.js';
import { Service } from './support/service.js';

const PAGES = 4096;
const BYTES = PAGES * 4096;
const PROMPT_BYTES = 20_000;
const LIMIT = { timeout: 120_000 };

const CGROUP = `${cgroupMounts().find(({ memory }) => memory)?.path}/agentzip-test-detect-${process.pid}`;

let service: Service;
let family: Family;
let model: Server;
const connections: Socket[] = [];
let port: number;

beforeEach(async () => {
  model = createServer((socket) => {
    connections.push(socket.on('error', () => {}));
    socket.resume();
  }).listen(0, '127.0.0.1');
  await once(model, 'listening');
  ({ port } = model.address() as AddressInfo);
  service = await Service.start({ detect: { endpoints: [`127.0.0.1:${port}`], inboundExec: true } });
  family = await Family.start();
  mkdirSync(CGROUP);
});
afterEach(async () => {
  await family?.stop();
  await expect.poll(() => rmdirSync(CGROUP)).toBeUndefined();
  await service?.stop();
  for (const socket of connections.splice(0)) socket.destroy();
  model.close();
});

const becomes = (name: string, phase: Phase): Promise<void> =>
  expect.poll(async () => (await service.client.getSandbox(name)).phase, { timeout: 20_000 }).toBe(phase);

test(
  'a sandbox whose host says nothing goes out in its waits, and is back with every byte right',
  LIMIT,
  async () => {
    const { client } = service;
    await client.putTemplate('base', { tenant: 'acme', pid: family.pid });
    const pid = await family.fork('one');
    expect(await family.ask('one', `mix one ${PAGES}`)).toBe('ok');
    await client.putSandbox('one', { template: 'base', tenant: 'acme', pids: [pid] });

    for (let turn = 1; turn <= 2; turn++) {
      expect(await family.ask('one', `send ${port} ${PROMPT_BYTES}`)).toBe('ok');
      await becomes('one', 'llm_wait');
      const { swappedBytes, windows, phaseSource } = await service.out('one');
      expect(swappedBytes).toBeGreaterThan(BYTES);
      expect({ windows, phaseSource }).toEqual({ windows: turn, phaseSource: 'probes' });

      // The sandbox has not read it, and none of its pages is needed for that to be known.
      connections[0].write('d'.repeat(500));
      await becomes('one', 'llm_streaming');
      expect(await family.ask('one', 'hear')).toBe('500');
      await becomes('one', 'idle');
      expect((await client.getSandbox('one')).lastWindow).toMatchObject({ reason: 'first_token' });
      if (turn === 2)
        await expect
          .poll(async () => (await client.getSandbox('one')).prefetchedPages)
          .toBeGreaterThan(PAGES / 2);
      expect(await family.ask('one', 'verify')).toBe('ok');
    }

    // A process that starts in a wait ends it, before a token has come.
    expect(await family.ask('one', `send ${port} ${PROMPT_BYTES}`)).toBe('ok');
    await service.out('one');
    expect(await family.ask('one', 'fork')).toMatch(/^\d+$/);
    await expect
      .poll(async () => (await client.getSandbox('one')).lastWindow?.reason, { timeout: 20_000 })
      .toBe('tool_start');
    expect(await family.ask('one', 'verify')).toBe('ok');
    expect(await family.ask('one', 'child verify')).toBe('ok');
  },
);

test('a sandbox whose agent is outside goes out between the calls that it brings in', LIMIT, async () => {
  const { client } = service;
  const pid = await family.fork('one');
  writeFileSync(`${CGROUP}/cgroup.procs`, String(pid));
  expect(await family.ask('one', `mix one ${PAGES}`)).toBe('ok');
  await client.putSandbox('one', { cgroup: CGROUP });
  for (let call = 1; call <= 2; call++) {
    const tool = spawn('/bin/sh', ['-c', `echo $$ > ${CGROUP}/cgroup.procs; exec sleep 1`]);
    const ended = once(tool, 'exit');
    await becomes('one', 'tool_running');
    expect((await client.getSandbox('one')).pids).toContain(tool.pid);
    await ended;
    await becomes('one', 'llm_wait');
    const { windows, swappedBytes } = await service.out('one');
    expect(windows).toBe(call);
    expect(swappedBytes).toBeGreaterThan(BYTES * 0.7);
  }
  expect(await family.ask('one', 'verify')).toBe('ok');
});

test('a sandbox is its host’s from its first event on', LIMIT, async () => {
  const { client } = service;
  const pid = await family.fork('one');
  expect(await family.ask('one', `noise one 256`)).toBe('ok');
  await client.putSandbox('one', { pids: [pid] });
  expect((await client.getSandbox('one')).phaseSource).toBe('probes');
  await service.event('tool_start', 'one');
  expect(await family.ask('one', `send ${port} ${PROMPT_BYTES}`)).toBe('ok');
  // The same is seen of a sandbox that says nothing.
  const other = await family.fork('other');
  await client.putSandbox('other', { pids: [other] });
  expect(await family.ask('other', `send ${port} ${PROMPT_BYTES}`)).toBe('ok');
  await becomes('other', 'llm_wait');
  const { phase, phaseSource, windows } = await client.getSandbox('one');
  expect({ phase, phaseSource, windows }).toEqual({ phase: 'tool_running', phaseSource: 'host', windows: 0 });
});
