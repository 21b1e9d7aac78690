import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { ControlServer } from '../src/plugin/server.js';
import { agentzip, COMMAND } from './support/command.js';
import { startControlServer, type TestServer } from './support/control-server.js';
import { PlayedController } from './support/played-status.js';
import { Terminal } from './support/terminal.js';

/** The built command in a pseudo-terminal, over a control server whose sandboxes are played. */
let played: PlayedController;
let server: TestServer;
let terminal: Terminal | undefined;

beforeEach(async () => {
  played = new PlayedController(40);
  server = await startControlServer({}, played);
});

afterEach(async () => {
  await terminal?.stop();
  terminal = undefined;
  await server.stop();
});

const words = (...more: string[]): string[] => [
  'top',
  '--runtime-dir',
  server.folder,
  '--interval',
  '0.2',
  ...more,
];

function start(size: [number, number], env: NodeJS.ProcessEnv = {}): Terminal {
  terminal = Terminal.start([process.execPath, COMMAND, ...words()], size, env);
  return terminal;
}

const LIMIT = { timeout: 15_000, interval: 50 };
const shows = (what: string | RegExp) => expect.poll(() => terminal?.text(), LIMIT).toMatch(what);
const hides = (what: string | RegExp) => expect.poll(() => terminal?.text(), LIMIT).not.toMatch(what);
const ids = async (): Promise<string[]> =>
  (await (terminal as Terminal).look()).screen.flatMap((line) => /^box-\d+/.exec(line)?.[0] ?? []);

describe('agentzip top in a terminal', () => {
  it('sorts, reverses, scrolls, filters, pauses, helps and quits by keys', async () => {
    const top = start([80, 24]);
    await shows(/40 sandboxes/);
    await shows(/OWNEDv/);
    await top.press('\x1b[D\x1b[D\x1b[D\x1b[D'); // four columns to the left: from owned to the id
    await shows(/SANDBOX\^/);
    expect((await ids()).slice(0, 3)).toEqual(['box-1', 'box-2', 'box-3']);
    await top.press('r');
    await shows(/SANDBOXv/);
    expect((await ids())[0]).toBe('box-40');
    await top.press('\x1b[F');
    await shows(/^box-1 /m);
    await top.press('g');
    await shows(/^box-40 /m);

    await top.press('/');
    await shows(/filter: _/);
    await top.press('node box-3');
    await shows(/filter: node box-3_/);
    await top.press('\r');
    await shows(/filter "node box-3"/);
    await expect.poll(async () => (await ids()).every((id) => id.startsWith('box-3')), LIMIT).toBe(true);
    expect((await ids()).length).toBeLessThan(5);
    await top.press('\x1b');
    await hides(/filter "/);

    await top.press('p');
    await shows(/PAUSED/);
    played.count = 7;
    await sleep(600);
    expect(await top.text()).toContain('40 sandboxes');
    await top.press('p');
    await shows(/7 sandboxes/);

    await top.press('?');
    await shows(/Ctrl-C\s+quit/);
    await top.press('x');
    await shows(/7 sandboxes/);
    expect((await top.look()).alternate).toBe(true);
    await top.press('q');
    await expect.poll(async () => (await top.look()).exit, LIMIT).toBe(0);
    expect((await top.look()).alternate).toBe(false);
  });

  it('says that the service is not running, and goes on with the next one', async () => {
    const top = start([80, 24]);
    await shows(/40 sandboxes/);
    const { folder } = server;
    await server.server.close();
    await shows(/not running, trying again/);
    played.count = 5;
    const next = await ControlServer.start(
      { api: played, gate: server.gate },
      { socketPath: `${folder}/agentzip.sock`, mode: 0o600, maxBodyKiB: 4, onInternalError: () => {} },
    );
    try {
      await shows(/5 sandboxes/);
      await hides(/not running/);
      await top.press('\x03');
      await expect.poll(async () => (await top.look()).exit, LIMIT).toBe(0);
    } finally {
      await next.close();
    }
  });

  it('fits on 40 x 10, and follows a resize', async () => {
    const top = start([40, 10]);
    await shows(/40 sandboxes/);
    const small = await top.look();
    expect(
      small.screen.filter((line) => /^box-\d+ +(tool|wait|stream) /.test(line)).length,
    ).toBeGreaterThanOrEqual(4);
    expect(small.screen.some((line) => line.includes('q quit'))).toBe(true);
    await top.resize(120, 30);
    await shows(/TEMPLATE.*FLT\/S/);
    expect((await ids()).length).toBeGreaterThan(15);
  });

  it.each([
    ['colours', {}, true],
    ['no colour with NO_COLOR', { NO_COLOR: '1' }, false],
  ])('has %s', async (_what, env, colored) => {
    const top = start([80, 24], env);
    await shows(/40 sandboxes/);
    const { colors } = await top.look();
    expect(colors.some((color) => color !== 'default')).toBe(colored);
  });

  it('leaves the terminal as it was when a signal ends it', async () => {
    const top = start([80, 24]);
    await shows(/40 sandboxes/);
    process.kill((await top.look()).pid, 'SIGTERM');
    await expect.poll(async () => (await top.look()).exit, LIMIT).toBe(0);
    expect((await top.look()).alternate).toBe(false);
  });
});

describe('agentzip top without a terminal', () => {
  it('prints one look', async () => {
    const { code, stdout, stderr } = await agentzip(words());
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.match(/^box-/gm)).toHaveLength(40);
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('prints a look as JSON with --once --json', async () => {
    const { code, stdout } = await agentzip(words('--once', '--json'));
    expect(code).toBe(0);
    expect(stdout.trim().split('\n')).toHaveLength(1);
    expect(JSON.parse(stdout)).toMatchObject({ totals: { sandboxes: 40 }, enabled: true });
  });

  it('says when nothing runs', async () => {
    await server.server.close();
    expect(await agentzip(words('--once'))).toMatchObject({ code: 1, stdout: '' });
    expect((await agentzip(words())).stderr).toContain('AZ_NOT_RUNNING');
  });
});
