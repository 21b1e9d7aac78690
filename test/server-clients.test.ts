import { chmodSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AgentZipClient } from '../src/plugin/client.js';
import { InstanceLock } from '../src/plugin/lock.js';
import { groupId } from '../src/plugin/socket.js';
import { agentzip } from './support/command.js';
import { startControlServer, type TestServer } from './support/control-server.js';

const TIMEOUT_MS = 400;
let server: TestServer;
const sockets: Socket[] = [];
beforeEach(async () => {
  server = await startControlServer({ requestTimeoutMs: TIMEOUT_MS, sendTimeoutMs: TIMEOUT_MS });
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await server.stop();
});

/** A connection on which `first` is written, and what has become of it. */
async function open(first: string | Buffer = '', allowHalfOpen = false) {
  const socket = connect({ path: server.socketPath, allowHalfOpen });
  const client = { socket, text: '', closed: false };
  sockets.push(socket);
  socket.on('error', () => {});
  socket.on('close', () => (client.closed = true));
  socket.setEncoding('latin1').on('data', (text: string) => (client.text += text));
  await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  if (first !== '' && !client.closed) socket.write(first);
  return client;
}

const answers = async (): Promise<void> => {
  expect((await server.client.health()).status).toBe('ok');
};
const HEAD = 'POST /v1/disable HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';

describe('a client that is broken is let go, and others are answered meanwhile', () => {
  it('when it sends a byte of its headers at a time', async () => {
    const client = await open('GET /v1/healthz HTTP/1.1\r\nx: ');
    const drip = setInterval(() => client.socket.write('E'), 30);
    await answers();
    await expect.poll(() => client.closed, { timeout: 5_000 }).toBe(true);
    clearInterval(drip);
    expect(client.text).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('when it sends a byte of its body at a time', async () => {
    const client = await open(`${HEAD}content-length: 100000\r\n\r\n`);
    const drip = setInterval(() => client.socket.write(' '), 30);
    await answers();
    await expect.poll(() => client.closed, { timeout: 5_000 }).toBe(true);
    clearInterval(drip);
    expect(client.text).toMatch(/^HTTP\/1\.1 408 /);
    expect(server.controller.calls).toEqual([]);
  });

  it('when it connects and says nothing', async () => {
    const client = await open();
    await answers();
    await expect.poll(() => client.closed, { timeout: 5_000 }).toBe(true);
  });

  it('when it closes its half in the middle of a request', async () => {
    const client = await open(`${HEAD}content-length: 20\r\n\r\n{`, true);
    client.socket.end();
    await answers();
    await expect.poll(() => client.text + String(client.closed), { timeout: 5_000 }).toMatch(/400|true/);
    client.socket.destroy();
    expect(server.controller.calls).toEqual([]);
    expect(server.internalErrors).toEqual([]);
  });

  it('when its headers do not end', async () => {
    const client = await open(`GET /v1/status HTTP/1.1\r\n${'x: y\r\n'.repeat(10_000)}`);
    await answers();
    await expect.poll(() => client.closed, { timeout: 5_000 }).toBe(true);
    expect(client.text).toMatch(/^HTTP\/1\.1 431 /);
  });

  it('when it asks and asks and does not read: few answers are made, and none waits for ever', async () => {
    let made = 0;
    const status = await server.controller.status();
    server.controller.status = async () => {
      made++;
      return { ...status, version: 'x'.repeat(1 << 20) };
    };
    const request = 'GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n';
    const greedy = await open();
    const idle = await open();
    greedy.socket.pause().write(request.repeat(1000));
    idle.socket.pause().write(request);
    await expect.poll(() => made).toBeGreaterThan(1);
    await answers();
    await sleep(2 * TIMEOUT_MS);
    for (const { socket } of [greedy, idle]) socket.resume();
    await expect.poll(() => greedy.closed && idle.closed, { timeout: 5_000 }).toBe(true);
    // What was on its way, and not the whole.
    expect(idle.text.length).toBeLessThan(1 << 20);
    expect(made).toBeLessThan(20);
    await answers();
  });
});

describe('many connections', () => {
  it('that rest are closed when they become too many, and nobody is locked out', async () => {
    const request = 'GET /v1/healthz HTTP/1.1\r\nhost: x\r\n\r\n';
    const clients: Awaited<ReturnType<typeof open>>[] = [];
    for (let i = 0; i < 450; i++) {
      const client = await open(request);
      clients.push(client);
      if (i % 50 === 0) await expect.poll(() => client.text).toContain('200 OK');
    }
    expect(clients.filter(({ closed }) => closed).length).toBeGreaterThan(100);
    await answers();
  });

  it('are bounded also when all of them are busy, until they time out', async () => {
    const clients: Awaited<ReturnType<typeof open>>[] = [];
    for (let i = 0; i < 600; i++) clients.push(await open('GET /v1/healthz HT'));
    await expect.poll(() => clients.filter(({ closed }) => closed).length).toBeGreaterThanOrEqual(88);
    await expect.poll(() => clients.every(({ closed }) => closed), { timeout: 10_000 }).toBe(true);
    await answers();
  });
});

/** Groups of another user; `as` runs a program as that user. */
const as = (groups: string): string[] => ['setpriv', '--reuid=65534', '--regid=65533', groups, '--'];

describe('who may connect', () => {
  const status = (folder: string, groups: string) =>
    agentzip(['status', '--runtime-dir', folder], as(groups));
  const gid = groupId('daemon');

  it('is root alone by default', async () => {
    const alone = await startControlServer();
    try {
      // Even where the folder lets everybody through.
      chmodSync(alone.folder, 0o755);
      expect((await status(alone.folder, '--clear-groups')).stderr).toMatch(/AZ_ACCESS_DENIED: .*uid 65534/);
      expect((await status(alone.folder, `--groups=${gid}`)).stderr).toMatch(/AZ_ACCESS_DENIED/);
    } finally {
      await alone.stop();
    }
  });

  it('is one group too when the policy says so, through a folder that is theirs', async () => {
    const runtimeDir = `${server.folder}/run`;
    chmodSync(server.folder, 0o711);
    const lock = InstanceLock.take(runtimeDir, gid);
    const shared = await startControlServer({ socketPath: `${runtimeDir}/agentzip.sock`, mode: 0o660, gid });
    try {
      const member = await status(runtimeDir, `--groups=${gid}`);
      expect([member.code, member.stderr]).toEqual([0, '']);
      expect((await status(runtimeDir, '--clear-groups')).stderr).toMatch(/AZ_ACCESS_DENIED/);
      const client = new AgentZipClient(`${runtimeDir}/agentzip.sock`);
      await client.health();
      client.close();
    } finally {
      await shared.stop();
      lock.release();
    }
  });
});
