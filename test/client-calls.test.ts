import { createServer } from 'node:http';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ControllerApi } from '../src/controller/api.js';
import { AgentZipError } from '../src/errors.js';
import { AgentZipClient } from '../src/plugin/client.js';
import { leaveDeadSocket } from './support/command.js';
import { sandboxStatus } from './support/memory-controller.js';
import { startControlServer, type TestServer } from './support/control-server.js';

let server: TestServer;
let client: AgentZipClient;
beforeEach(async () => {
  server = await startControlServer();
  client = server.client;
});
afterEach(() => server.stop());

describe('the client', () => {
  it('carries every method of the controller over the socket', async () => {
    expect(await client.putTemplate('py', { pid: 7, tenant: 'acme' })).toMatchObject({
      id: 'py',
      tenant: 'acme',
    });
    const spec = { template: 'py', tenant: 'acme', pids: [1, 2] };
    expect(await client.putSandbox('box-1', spec)).toEqual(sandboxStatus('box-1', spec));
    expect(await client.getSandbox('box-1')).toEqual(sandboxStatus('box-1', spec));
    const event = { type: 'llm_request_sent', at: 1.5, expectedMs: 4000, traceparent: 'x' } as const;
    expect(await client.event('box-1', event)).toBeUndefined();
    expect(server.controller.events).toEqual([['box-1', event]]);
    await client.prePause('box-1');
    await client.postResume('box-1');
    await client.wake('box-1');
    const status = await client.status();
    expect(status).toEqual({ ...(await server.controller.status()), uptimeMs: status.uptimeMs });
    await client.disable();
    expect(await client.deleteSandbox('box-1')).toBeUndefined();
    expect(await client.deleteTemplate('py')).toBeUndefined();
    expect(await client.health()).toMatchObject({ status: 'ok', pid: process.pid });
    await client.drain();
    expect(server.controller.calls).toEqual([
      ...['putTemplate py', 'putSandbox box-1', 'prePause box-1', 'postResume box-1', 'wake box-1'],
      ...['disable', 'deleteSandbox box-1', 'deleteTemplate py', 'drain'],
    ]);
  });

  it('has no method too few', () => {
    const methods: Record<keyof ControllerApi, string> = {
      ...{ putTemplate: '', putSandbox: '', getSandbox: '', deleteSandbox: '', event: '', prePause: '' },
      ...{ postResume: '', wake: '', explain: '', status: '', deleteTemplate: '', disable: '', drain: '' },
    };
    for (const name of Object.keys(methods)) expect(client).toHaveProperty(name);
  });

  it('throws the error that the service answered, with its details', async () => {
    const error = await client.getSandbox('nobody').catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(AgentZipError);
    expect(error).toMatchObject({
      code: 'AZ_UNKNOWN_SANDBOX',
      message: 'sandbox nobody is not registered',
      remedy: 'register it: PUT /v1/sandboxes/nobody',
      details: { id: 'nobody' },
    });
  });

  it('keeps an id in its place in the path', async () => {
    await expect(client.getSandbox('../../status')).rejects.toMatchObject({ code: 'AZ_BAD_REQUEST' });
    await expect(client.getSandbox('a?b#c')).rejects.toMatchObject({ code: 'AZ_BAD_REQUEST' });
  });

  it('takes many calls at once', async () => {
    await client.putSandbox('box', { pids: [1] });
    const calls = Array.from({ length: 500 }, () => client.event('box', { type: 'tool_end' }));
    await Promise.all(calls);
    expect(server.controller.events).toHaveLength(500);
  });

  it('tries once more when the service closed a kept connection', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'agentzip-client-'));
    const socketPath = join(folder, 's');
    let requests = 0;
    const flaky = createServer((request, response) => {
      requests++;
      if (requests === 2) request.socket.destroy();
      else response.setHeader('content-type', 'application/json').end('{"status":"ok"}');
    });
    await new Promise<void>((resolve) => flaky.listen(socketPath, resolve));
    const other = new AgentZipClient(socketPath);
    try {
      await other.health();
      expect(await other.health()).toEqual({ status: 'ok' });
      expect(requests).toBe(3);
    } finally {
      other.close();
      flaky.closeAllConnections();
      flaky.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe('without a service', () => {
  it('nobody there, and a socket that a dead service left', async () => {
    const none = new AgentZipClient(join(server.folder, 'none.sock'));
    await expect(none.status()).rejects.toMatchObject({
      code: 'AZ_NOT_RUNNING',
      message: `no AgentZip answers at ${server.folder}/none.sock`,
    });
    const dead = join(server.folder, 'dead.sock');
    leaveDeadSocket(dead);
    await expect(new AgentZipClient(dead).status()).rejects.toMatchObject({ code: 'AZ_NOT_RUNNING' });
  });

  it('no right to connect', async () => {
    chmodSync(server.folder, 0o755);
    const uid = process.getuid?.() ?? 0;
    try {
      process.seteuid?.(65534);
      await expect(client.status()).rejects.toMatchObject({ code: 'AZ_ACCESS_DENIED' });
    } finally {
      process.seteuid?.(uid);
    }
    expect((await client.status()).pid).toBe(process.pid);
  });
});
