import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { tryLock } from '../src/native/files.js';
import { PagerClient } from '../src/pager/client.js';
import { encodeFrame, FrameReader } from '../src/pager/frames.js';
import { pagerLock, pagerSocket } from '../src/pager/options.js';
import type { PagerInfo } from '../src/pager/protocol.js';
import { HELLO } from './support/scripted-pager.js';

/** Listens where a pager would, and dies when told. `mute`: takes requests and answers none. */
class Listener {
  readonly asked: string[] = [];
  private readonly sockets: Socket[] = [];
  private readonly server: Server = createServer((socket) => {
    const reader = new FrameReader();
    this.sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      for (const { id, json, tail } of reader.push(chunk)) {
        this.asked.push(`${json.op} ${json.owner ?? tail.length}`);
        if (this.mute) continue;
        const ok = json.op === 'hello' ? { ...HELLO, pid: this.pid, takeovers: 1 } : { sequence: this.pid };
        for (const part of encodeFrame(id, { ok })) socket.write(part);
      }
    });
  });

  constructor(
    private readonly pid: number,
    private readonly mute = false,
  ) {}

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(pagerSocket(folder), resolve));
    return this;
  }

  die(): void {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }
}

let folder: string;
let lock: number;
let client: PagerClient;
let first: Listener;
let second: Listener | undefined;
beforeEach(async () => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  lock = openSync(pagerLock(folder), 'w');
  expect(tryLock(lock)).toBe(true);
  first = await new Listener(11, true).listen();
  client = await PagerClient.connect(pagerSocket(folder));
});
afterEach(() => {
  client.close();
  first.die();
  second?.die();
  second = undefined;
  rmSync(folder, { recursive: true });
});
const release = (): void => closeSync(lock);

test('what a pager had not answered is asked of the one that takes over, its open windows first', async () => {
  const told: PagerInfo[] = [];
  client.onTakeover = (info) => told.push(info);
  const requests = [
    client.request('openWindow', { owner: 'stays' }),
    client.request('openWindow', { owner: 'closes' }),
    client.request('closeWindow', { owner: 'closes' }),
    client.writtenSince(5, Uint32Array.of(1, 2, 3)).catch(() => 'no bitmap'),
  ];
  await expect.poll(() => first.asked.length).toBe(4);
  first.die();
  const late = client.request('sequence', {});
  await new Promise((resolve) => setTimeout(resolve, 100));
  second = await new Listener(12).listen();
  expect(await late).toEqual({ sequence: 12 });
  await Promise.all(requests);
  expect(second.asked.slice(0, 2)).toEqual(['hello 0', 'openWindow stays']);
  expect(second.asked.slice(2)).toEqual([...first.asked, 'sequence 0']);
  expect(told).toEqual([{ ...HELLO, pid: 12, takeovers: 1 }]);
  expect(client.takeovers).toBe(1);
  release();
});

test('without a holder of the lock nobody is waited for', async () => {
  const lost = expect(client.request('sequence', {})).rejects.toMatchObject({ code: 'AZ_PAGER_LOST' });
  release();
  first.die();
  await lost;
  await client.closed;
  await expect(client.request('status', {})).rejects.toMatchObject({ code: 'AZ_PAGER_LOST' });
});

test('a client that is closed while it waits for a takeover gives up', async () => {
  first.die();
  await new Promise((resolve) => setTimeout(resolve, 60));
  const lost = expect(client.request('sequence', {})).rejects.toMatchObject({ code: 'AZ_PAGER_LOST' });
  client.close();
  await lost;
  await client.closed;
  release();
});
