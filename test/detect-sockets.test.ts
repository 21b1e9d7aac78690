import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { endpointKey } from '../src/telemetry/endpoints.js';
import { Probes } from '../src/telemetry/probes.js';
import { probesMissing, Recorder } from './fixtures/toucher.js';
import { Python } from './support/python.js';

const TAG = 5;

/** Accepts connections at an address, and keeps what comes until it is asked. */
class Peer {
  readonly sockets: Socket[] = [];
  bytes = 0;

  private constructor(
    private readonly server: Server,
    readonly port: number,
  ) {
    server.on('connection', (socket) => {
      this.sockets.push(socket);
      socket.on('data', (data) => (this.bytes += data.length)).on('error', () => {});
    });
  }

  static async listen(host: string): Promise<Peer> {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    return new Peer(server, (server.address() as { port: number }).port);
  }

  async received(bytes: number): Promise<void> {
    await expect.poll(() => this.bytes, { timeout: 5000 }).toBe(bytes);
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }
}

describe.skipIf(probesMissing() !== null)('connections of tracked processes', () => {
  let probes: Probes;
  let python: Python;
  let seen: Recorder;
  const peers: Peer[] = [];
  beforeEach(async () => {
    probes = Probes.load();
    expect(probes.warnings).toEqual([]);
    python = await Python.start();
    seen = new Recorder();
    probes.track(python.pid, TAG);
  });
  afterEach(async () => {
    await python.stop();
    for (const peer of peers.splice(0)) peer.close();
    probes.close();
  });

  const listen = async (host: string): Promise<Peer> => {
    const peer = await Peer.listen(host);
    peers.push(peer);
    return peer;
  };
  const dial = (name: string, host: string, port: number): Promise<string> =>
    python.run(
      `globals().update(${name}=__import__('socket').create_connection(('${host}', ${port}))) or 'ok'`,
    );
  const poll = (): Recorder => {
    probes.poll(seen);
    return seen;
  };

  it.each(['127.0.0.1', '::1'])('to an endpoint, %s, tell bytes and times both ways', async (host) => {
    const peer = await listen(host);
    probes.addEndpoint(endpointKey(host, peer.port));
    await dial('s', host, peer.port);
    await python.run("s.sendall(b'a' * 3000)");
    await peer.received(3000);
    const before = Number(process.hrtime.bigint());
    peer.sockets[0].write('answer');
    await expect.poll(() => poll().traffics.length).toBe(2);
    const [sent, arrived] = seen.traffics;
    expect(sent).toMatchObject({ tag: TAG, pid: python.pid, port: peer.port, inbound: false });
    expect(sent).toMatchObject({ sentBytes: 3000, receivedBytes: 0 });
    expect(arrived).toMatchObject({ tag: TAG, pid: 0, sentBytes: 0, receivedBytes: 6 });
    expect(arrived.connection).toBe(sent.connection);
    // Python has not read it.
    expect(arrived.timeNs).toBeGreaterThan(before);
    expect(seen.closings).toEqual([]);
    peer.sockets[0].end();
    await expect.poll(() => poll().closings).toContain(sent.connection);
  });

  it('from an IPv6 socket to an IPv4 endpoint count too', async () => {
    const peer = await listen('127.0.0.1');
    probes.addEndpoint(endpointKey('127.0.0.1', peer.port));
    await dial('s', '::ffff:127.0.0.1', peer.port);
    await python.run("s.sendall(b'a' * 100)");
    await peer.received(100);
    expect(poll().traffics.map(({ sentBytes }) => sentBytes)).toEqual([100]);
  });

  it('to anything else make no record, nor do those of processes that are not tracked', async () => {
    const [peer, other] = [await listen('127.0.0.1'), await listen('127.0.0.1')];
    probes.addEndpoint(endpointKey('127.0.0.1', peer.port));
    probes.addEndpoint(endpointKey('127.0.0.2', other.port));
    await dial('s', '127.0.0.1', other.port);
    await python.run("s.sendall(b'a' * 5000)");
    await other.received(5000);
    other.sockets[0].write('answer');
    expect(await python.run('len(s.recv(100))')).toBe('6');
    probes.untrack(python.pid);
    await dial('t', '127.0.0.1', peer.port);
    await python.run("t.sendall(b'a' * 5000)");
    await peer.received(5000);
    peer.sockets[0].write('answer');
    expect(await python.run('len(t.recv(100))')).toBe('6');
    expect(poll().traffics).toEqual([]);
    expect(probes.stats().byKind).toMatchObject({ sent: 0, arrived: 0, closed: 0 });
  });

  it('to an endpoint that is no longer one make no record', async () => {
    const peer = await listen('127.0.0.1');
    const key = endpointKey('127.0.0.1', peer.port);
    probes.addEndpoint(key);
    probes.removeEndpoint(key);
    probes.removeEndpoint(key);
    await dial('s', '127.0.0.1', peer.port);
    await python.run("s.sendall(b'a' * 100)");
    await peer.received(100);
    expect(poll().traffics).toEqual([]);
  });

  it('taken at an inbound port tell requests from answers', async () => {
    const port = Number(
      await python.run(
        "globals().update(l=__import__('socket').create_server(('127.0.0.1', 0))) or l.getsockname()[1]",
      ),
    );
    probes.addInbound(port);
    const client = connect(port, '127.0.0.1');
    await once(client, 'connect');
    client.write('call');
    await python.run('globals().update(c=l.accept()[0]) or len(c.recv(100))');
    client.write('further');
    await python.run('len(c.recv(100))');
    const answered = once(client, 'data');
    await python.run("c.sendall(b'result')");
    await answered;
    const told = poll().traffics.map(({ pid, sentBytes, receivedBytes }) => [pid, sentBytes, receivedBytes]);
    expect(told).toEqual([
      // The first request is known when it is read; the next when it arrives.
      [python.pid, 0, 4],
      [0, 0, 11],
      [python.pid, 6, 11],
    ]);
    client.destroy();
    expect(seen.traffics.every((traffic) => traffic.inbound && traffic.port === port)).toBe(true);
  });

  it('wake for a request, and for what comes when the tag is armed, at once and for nothing else', async () => {
    const peer = await listen('127.0.0.1');
    probes.addEndpoint(endpointKey('127.0.0.1', peer.port));
    let news = 0;
    probes.onNews(() => {
      news++;
      poll();
    });
    await dial('s', '127.0.0.1', peer.port);
    await python.run('area(64)');
    await python.run('touch(0, 0, 64)');
    await sleep(50);
    expect(news).toBe(0);
    await python.run("s.sendall(b'a' * 100)");
    await expect.poll(() => seen.traffics.length, { interval: 1 }).toBe(1);
    expect(news).toBe(1);

    // Not armed: left to the next poll.
    peer.sockets[0].write('one');
    expect(await python.run('len(s.recv(100))')).toBe('3');
    await sleep(50);
    expect(news).toBe(1);
    probes.arm(TAG, true);
    peer.sockets[0].write('two');
    await expect.poll(() => seen.traffics.length, { interval: 1 }).toBe(3);
    expect(news).toBe(2);
    await python.run("os.system('true')");
    await expect.poll(() => seen.others.map(([kind]) => kind), { interval: 1 }).toContain('fork');
    expect(news).toBeGreaterThan(2);
  });
});
