import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { followDrain } from '../src/plugin/drain-progress.js';
import { ProgressMeter, progressText, type Progress } from '../src/plugin/progress.js';
import { bytes } from '../src/plugin/watch/format.js';
import { agentzip, COMMAND } from './support/command.js';
import { startControlServer, type TestServer } from './support/control-server.js';
import { Terminal } from './support/terminal.js';

const MIB = 2 ** 20;

describe('progress', () => {
  it('has the rate of the last seconds, and what is left at that rate', () => {
    const meter = new ProgressMeter();
    expect(meter.note(0, 0, 1000)).toEqual({ done: 0, total: 1000, perS: null, leftMs: null });
    expect(meter.note(1000, 500, 1000)).toEqual({ done: 500, total: 1000, perS: 500, leftMs: 1000 });
    for (let at = 2000; at <= 20_000; at += 1000) meter.note(at, 500 + at / 1000, 1000);
    expect(meter.note(21_000, 521, 1000)).toMatchObject({ perS: 1, leftMs: 479_000 });
  });

  it('does not run backwards when there is more to do', () => {
    const meter = new ProgressMeter();
    meter.note(0, 100, 200);
    expect(meter.note(1000, 100, 500)).toMatchObject({ done: 100, total: 500, leftMs: null });
    expect(meter.note(2000, 100, 300)).toMatchObject({ total: 500 });
  });

  it('is a line of less than 80 columns', () => {
    const text = progressText({ done: 512 * MIB, total: 2048 * MIB, perS: 310 * MIB, leftMs: 5000 }, bytes);
    expect(text).toBe('[=====...............]  25%, 1.50 GiB left of 2.00 GiB, 310 MiB/s, 5.0s');
    expect(progressText({ done: 0, total: 0, perS: null, leftMs: null }, bytes)).toContain('100%');
  });

  it('of a drain follows the device until it is told to end', async () => {
    const used = [100 * MIB, 100 * MIB, 60 * MIB, 0];
    const told: Progress[] = [];
    const end = new AbortController();
    const tell = (progress: Progress): void => {
      told.push(progress);
      if (used.length === 0) end.abort();
    };
    await followDrain('/dev/none', tell, end.signal, () => used.shift() ?? 0);
    expect(told.map(({ done, total }) => [done / MIB, total / MIB])).toEqual([
      [0, 100],
      [40, 100],
      [100, 100],
    ]);
  });
});

describe('agentzip template', () => {
  let server: TestServer;
  let terminal: Terminal | undefined;
  beforeEach(async () => {
    server = await startControlServer();
  });
  afterEach(async () => {
    await terminal?.stop();
    terminal = undefined;
    await server.stop();
  });

  const template = (...words: string[]) => agentzip(['template', ...words, '--runtime-dir', server.folder]);

  /** A capture that takes a while, and is seen by the status. */
  const slowly = (ms: number): void => {
    server.controller.onCapture = async (captures) => {
      const capture = { id: 'py', pages: 0, totalPages: 4000 };
      captures.push(capture);
      for (; capture.pages < 4000; capture.pages += 400) await sleep(ms / 10);
      captures.splice(0);
    };
  };

  it('captures, lists and drops', async () => {
    const { controller } = server;
    expect(await template('list')).toMatchObject({ code: 0, stdout: 'no template is registered\n' });
    expect(await template('capture', '4711', '--id', 'py', '--tenant', 'acme')).toEqual({
      ...{ code: 0, stdout: 'template py: 100 pages, 60 distinct\n', stderr: '' },
    });
    expect(controller.templates.get('py')).toEqual({ pid: 4711, tenant: 'acme' });
    const { stdout } = await template('list');
    expect(stdout).toMatch(/^TEMPLATE +TENANT +PAGES +DISTINCT/);
    expect(stdout).toMatch(/^py +acme +100 +60 +240 KiB/m);
    expect(JSON.parse((await template('list', '--json')).stdout)).toMatchObject([{ id: 'py', pages: 100 }]);
    expect(await template('drop', 'py')).toMatchObject({ code: 0, stdout: 'template py: dropped\n' });
    expect(await template('drop', 'py')).toMatchObject({ code: 1, stdout: '' });
    expect(controller.calls).toEqual(['putTemplate py', 'deleteTemplate py']);
  });

  it('shows how far a capture is on a terminal, in place', async () => {
    slowly(4000);
    const words = ['template', 'capture', '1', '--id', 'py', '--runtime-dir', server.folder];
    terminal = Terminal.start([process.execPath, COMMAND, ...words], [80, 24]);
    const text = () => (terminal as Terminal).text();
    await expect
      .poll(text, { timeout: 15_000, interval: 50 })
      .toMatch(/\[=+\.+\] +\d+%, [\d,]+ pages left of 4,000 pages/);
    expect((await text()).match(/pages left/g)).toHaveLength(1);
    await expect.poll(text, { timeout: 15_000 }).toContain('template py: 100 pages, 60 distinct');
    await expect.poll(async () => (await (terminal as Terminal).look()).exit, { timeout: 5_000 }).toBe(0);
  });

  it('says so by lines elsewhere, on standard error, and nothing with --json', async () => {
    slowly(7000);
    const [lines, json] = await Promise.all([
      template('capture', '1', '--id', 'py'),
      template('capture', '1', '--id', 'py', '--json'),
    ]);
    expect(lines.stderr).toMatch(/^agentzip: capturing py from process 1: \[=+\.+\] +\d+%, .*\n$/);
    expect(lines.stdout).toBe('template py: 100 pages, 60 distinct\n');
    expect(json.stderr).toBe('');
    expect(JSON.parse(json.stdout)).toMatchObject({ id: 'py' });
  }, 30_000);

  it('gives the error and its remedy once, also on a terminal', async () => {
    server.controller.onCapture = () => Promise.reject(new Error('the process went away'));
    const words = ['template', 'capture', '1', '--id', 'py', '--runtime-dir', server.folder];
    terminal = Terminal.start([process.execPath, COMMAND, ...words], [120, 24]);
    await expect.poll(async () => (await (terminal as Terminal).look()).exit, { timeout: 15_000 }).toBe(1);
    expect((await terminal.text()).match(/the process went away/g)).toHaveLength(1);
  });
});
