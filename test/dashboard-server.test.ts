import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { mkdtempSync, readFileSync, rmSync, statSync, existsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Dashboard } from '../src/plugin/dashboard/dashboard.js';
import { authority, isOwnName } from '../src/plugin/dashboard/guard.js';
import { History, MAX_POINTS, MAX_WINDOWS } from '../src/plugin/dashboard/history.js';
import { serveDashboard } from '../src/plugin/dashboard/serve.js';
import type { HistoryAnswer, LookEvent } from '../src/plugin/dashboard/shapes.js';
import { sampleOf } from '../src/plugin/watch/sample.js';
import { withDefaults } from '../src/policy/defaults.js';
import { parsePolicy } from '../src/policy/load.js';
import { AdoptedPager } from './support/adopted-pager.js';
import { COMMAND } from './support/command.js';
import { playedDashboard } from './support/dashboard.js';
import { PlayedController } from './support/played-status.js';

let played: Awaited<ReturnType<typeof playedDashboard>>;
let dashboard: Dashboard;
beforeEach(async () => {
  played = await playedDashboard(3, 60_000);
  dashboard = played.dashboard;
});
afterEach(() => dashboard.close());

interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      { host: '127.0.0.1', port: dashboard.port, path, headers, method },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
      },
    );
    outgoing.on('error', reject).end();
  });
}

const key = (): string => new URL(dashboard.url).searchParams.get('key') ?? '';
const cookie = () => ({ cookie: `other=1; agentzip_${dashboard.port}=${key()}` });

describe('the dashboard answers', () => {
  it('with the key alone, which then is a cookie that no script and no other site can use', async () => {
    for (const path of [
      '/',
      '/style.css',
      '/api/history',
      '/api/events',
      '/?key=wrong',
      `/api/history?key=${key()}`,
    ]) {
      expect((await ask(path)).status, path).toBe(401);
    }
    expect((await ask('/', { cookie: `agentzip_${dashboard.port}=${key()}x` })).status).toBe(401);
    const opened = await ask(new URL(dashboard.url).pathname + new URL(dashboard.url).search);
    expect(opened.status).toBe(200);
    expect(opened.headers['set-cookie']).toEqual([
      `agentzip_${dashboard.port}=${key()}; Path=/; HttpOnly; SameSite=Strict`,
    ]);
    expect((await ask('/', cookie())).status).toBe(200);
  });

  it('to its own names alone: another name that leads to loopback is refused', async () => {
    const { port } = dashboard;
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `LOCALHOST:${port}`]) {
      expect((await ask('/', { ...cookie(), host })).status, host).toBe(200);
    }
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1',
      `127.0.0.1:${port + 1}`,
      `0.0.0.0:${port}`,
    ]) {
      expect((await ask('/', { ...cookie(), host })).status, host).toBe(421);
      expect((await ask(`/?key=${key()}`, { host })).status, host).toBe(421);
    }
  });

  it('nothing but reads', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const { status, headers } = await ask('/api/history', cookie(), method);
      expect([status, headers.allow], method).toEqual([405, 'GET, HEAD']);
    }
    expect(await ask('/api/history', cookie(), 'HEAD')).toMatchObject({ status: 200, text: '' });
    expect(played.controller.calls).toEqual([]);
  });

  it('no file but its own', async () => {
    for (const path of [
      '/../package.json',
      '/%2e%2e/package.json',
      '/plugin/dashboard/page/../../server.js',
      '//etc/passwd',
      '/index.html',
    ]) {
      expect((await ask(path, cookie())).status, path).toBe(404);
    }
  });

  it('with headers that let the page load and ask nothing else', async () => {
    for (const path of ['/', '/api/history', '/nothing']) {
      const { headers } = await ask(path, cookie());
      expect(headers['content-security-policy'], path).toMatch(/^default-src 'none'; script-src 'self';/);
      expect(headers['content-security-policy']).toContain("frame-ancestors 'none'");
      expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
      expect(headers['access-control-allow-origin']).toBeUndefined();
    }
    const page = (await ask('/', cookie())).text;
    expect(page).not.toMatch(/<script(?![^>]*src="\/)|<style|style="| on\w+="|https?:\/\//);
  });

  it('everything that the page names', async () => {
    const seen = new Set<string>(['/']);
    for (const path of seen) {
      const { status, text } = await ask(path, cookie());
      expect(status, path).toBe(200);
      const found =
        path === '/' ? text.matchAll(/(?:src|href)="(\/[^"]*)"/g) : text.matchAll(/from '(\.[^']*)'/g);
      for (const [, name] of found) seen.add(new URL(name, `http://x${path}`).pathname);
    }
    expect(seen.size).toBeGreaterThan(8);
  });
});

describe('what it tells', () => {
  it('is the history, and then each look', async () => {
    const before = JSON.parse((await ask('/api/history', cookie())).text) as HistoryAnswer;
    expect(before.points.length).toBeGreaterThanOrEqual(30);
    expect(before.now?.sandboxes).toHaveLength(3);
    const look = await new Promise<LookEvent>((resolve, reject) => {
      const options = { host: '127.0.0.1', port: dashboard.port, path: '/api/events', headers: cookie() };
      const outgoing = request(options, (response) => {
        let text = '';
        expect(response.headers['content-type']).toBe('text/event-stream');
        response.setEncoding('utf8').on('data', (chunk) => {
          text += chunk;
          const found = /event: look\ndata: (.*)\n\n/.exec(text);
          if (found === null) return;
          outgoing.destroy();
          resolve(JSON.parse(found[1]) as LookEvent);
        });
      });
      outgoing.on('error', reject).end();
    });
    expect(look.point.at).toBeGreaterThan(before.points.at(-1)?.at ?? Infinity);
    expect(look.now.sandboxes.map(({ id }) => id)).toEqual(['box-1', 'box-2', 'box-3']);
  });

  it('is bounded, and has windows from their beginning to their end', async () => {
    const history = new History();
    const controller = new PlayedController(12);
    controller.startedAt = 0;
    for (let at = 0; at < (MAX_POINTS + 50) * 2000; at += 2000) {
      controller.clock = () => at;
      history.add(sampleOf({ status: await controller.status(), at }));
    }
    const { points, windows } = JSON.parse(history.json()) as HistoryAnswer;
    expect(points).toHaveLength(MAX_POINTS);
    expect(windows.length).toBeLessThanOrEqual(MAX_WINDOWS);
    expect(windows.length).toBeGreaterThan(2000);
    const ended = windows.filter(({ endedAt }) => endedAt !== null);
    expect(ended.every(({ openedAt, endedAt }) => (endedAt ?? 0) - openedAt === 12_000)).toBe(true);
    const open = windows.filter(({ endedAt }) => endedAt === null);
    expect(new Set(open.map(({ sandbox }) => sandbox)).size).toBe(open.length);
    // Its sandboxes go: no window stays open.
    controller.count = 0;
    history.add(sampleOf({ status: await controller.status(), at: 1e9 }));
    expect(
      (JSON.parse(history.json()) as HistoryAnswer).windows.every(({ endedAt }) => endedAt !== null),
    ).toBe(true);
  }, 120_000);
});

describe('bad clients', () => {
  it('that open too many streams are refused; those that are open go on', async () => {
    const streams = Array.from({ length: 16 }, () => {
      const options = { host: '127.0.0.1', port: dashboard.port, path: '/api/events', headers: cookie() };
      const outgoing = request(options, (response) => response.resume());
      outgoing.on('error', () => {}).end();
      return outgoing;
    });
    await expect.poll(() => dashboard.readers).toBe(16);
    expect((await ask('/api/events', cookie())).status).toBe(503);
    expect((await ask('/', cookie())).status).toBe(200);
    for (const stream of streams) stream.destroy();
    await expect.poll(() => dashboard.readers).toBe(0);
  });

  it('that send nonsense, or nothing, are let go', async () => {
    const closed = (text: string): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect(dashboard.port, '127.0.0.1', () => socket.write(text));
        socket
          .on('error', () => {})
          .on('close', () => resolve())
          .resume();
      });
    await closed('\0\x01nonsense\r\n\r\n');
    await closed(`GET / HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`);
    await closed('GET http://[/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    await closed('GET / HTTP/1.1\r\n'); // headers that never end: its time is up
    expect((await ask('/', cookie())).status).toBe(200);
  }, 30_000);

  it('that do not read are dropped before they cost much memory', async () => {
    const socket = connect(dashboard.port, '127.0.0.1');
    socket.on('error', () => {});
    const gone = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    played.controller.count = 300;
    socket.pause();
    socket.write(
      `GET /api/events HTTP/1.1\r\nhost: 127.0.0.1:${dashboard.port}\r\ncookie: ${cookie().cookie}\r\n\r\n`,
    );
    await expect.poll(() => dashboard.readers).toBe(1);
    // Sent by hand, so that it does not take minutes.
    const sample = sampleOf({ status: await played.controller.status(), at: Date.now() });
    for (let i = 0; i < 400 && dashboard.readers > 0; i++) {
      dashboard.look(sample);
      await sleep(1);
    }
    expect(dashboard.readers).toBe(0);
    socket.resume();
    await gone;
  }, 30_000);
});

describe('names', () => {
  it('of an IPv6 loopback stand in brackets', () => {
    const gate = { host: '::1', port: 80, token: '' };
    expect(authority('::1', 80)).toBe('[::1]:80');
    expect(
      ['[::1]:80', 'localhost:80', '::1:80', '127.0.0.1:80', undefined].map((name) => isOwnName(name, gate)),
    ).toEqual([...[true, true, false, false, false]]);
  });
});

describe('agentzip run', () => {
  let folder: string;
  let pager: AdoptedPager;
  let child: ChildProcess | undefined;
  beforeEach(async () => {
    folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
    pager = await AdoptedPager.start(folder);
  });
  afterEach(async () => {
    if (child !== undefined && child.exitCode === null) {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    }
    pager.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function run(settings: object): Promise<{ output: () => string; ended: Promise<unknown> }> {
    writeFileSync(
      `${folder}/policy.json`,
      JSON.stringify({ dashboard: settings, detect: { enabled: false } }),
    );
    const words = [
      'run',
      '--runtime-dir',
      folder,
      '--state-dir',
      folder,
      '--policy',
      `${folder}/policy.json`,
    ];
    const started = spawn(process.execPath, [COMMAND, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
    child = started;
    let output = '';
    for (const stream of [started.stdout, started.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output += text));
    await expect
      .poll(() => output, { timeout: 20_000 })
      .toContain(`agentzip: socket ${folder}/agentzip.sock`);
    return { output: () => output, ended: once(started, 'exit') };
  }

  it('says where its dashboard is, but not its key, and takes it down when it ends', async () => {
    const { output, ended } = await run({ enabled: true });
    await expect
      .poll(output)
      .toMatch(/agentzip: dashboard http:\/\/127\.0\.0\.1:\d+\/, with its key in .*dashboard\.url\n/);
    expect(output()).not.toContain('key=');
    const url = readFileSync(`${folder}/dashboard.url`, 'utf8').trim();
    expect((await fetch(url)).status).toBe(200);
    child?.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(existsSync(`${folder}/dashboard.url`)).toBe(false);
    await expect(fetch(url)).rejects.toThrow();
  });

  it('runs without one where its port is taken, and says so', async () => {
    const { output, ended } = await run({ enabled: true, port: dashboard.port });
    expect(output()).toMatch(/AZ_DASHBOARD: .*EADDRINUSE/);
    expect(output()).not.toContain('agentzip: dashboard http');
    child?.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });
});

describe('the service', () => {
  it('serves none unless the policy says so, and on no other address than loopback', async () => {
    expect(await serveDashboard(played.controller, withDefaults({}))).toBeNull();
    for (const host of ['0.0.0.0', '::', '10.0.0.1', 'localhost', '']) {
      expect(() => parsePolicy(`dashboard: {enabled: true, host: "${host}"}`), host).toThrow(
        /dashboard.host/,
      );
    }
  });

  it('keeps the key in a file for who may use the control socket, and removes it', async () => {
    const runtimeDir = mkdtempSync(`${tmpdir()}/agentzip-test-`);
    try {
      const policy = withDefaults({ dashboard: { enabled: true } });
      policy.paths.runtimeDir = runtimeDir;
      const served = await serveDashboard(played.controller, policy);
      const file = `${runtimeDir}/dashboard.url`;
      expect(served).toMatchObject({ file });
      expect(readFileSync(file, 'utf8')).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?key=[\w-]{32}\n$/);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      await served?.close();
      expect(existsSync(file)).toBe(false);
    } finally {
      rmSync(runtimeDir, { recursive: true });
    }
  });

  it('says which port is taken', async () => {
    const look = () => played.controller.status();
    const second = Dashboard.start({ host: '127.0.0.1', port: dashboard.port, look });
    await expect(second).rejects.toMatchObject({ code: 'AZ_DASHBOARD' });
  });

  it('tells open pages when it can not be looked at', async () => {
    const failing = await Dashboard.start({
      ...{ host: '127.0.0.1', port: 0, intervalMs: 50 },
      look: () => Promise.reject(new Error('the pager is gone')),
    });
    try {
      const url = `http://127.0.0.1:${failing.port}/api/events`;
      const headers = { cookie: `agentzip_${failing.port}=${new URL(failing.url).searchParams.get('key')}` };
      const reader = (await fetch(url, { headers })).body?.getReader();
      let text = '';
      while (!text.includes('problem')) text += new TextDecoder().decode((await reader?.read())?.value);
      expect(text).toContain('the pager is gone');
      await reader?.cancel();
    } finally {
      await failing.close();
    }
  });
});
