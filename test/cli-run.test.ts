import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { AgentZipError } from '../src/errors.js';
import type { AgentZipOptions } from '../src/plugin/lifecycle.js';
import { InstanceLock } from '../src/plugin/lock.js';
import { runService, type Served } from '../src/plugin/service.js';
import { agentzip } from './support/command.js';
import { MemoryController } from './support/memory-controller.js';

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'agentzip-run-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** `agentzip run` in the folder. Every case here must be refused before the pager is started. */
const run = (words: readonly string[] = [], as: readonly string[] = []) =>
  agentzip(['run', '--runtime-dir', join(folder, 'run'), '--state-dir', join(folder, 'state'), ...words], as);

function policy(text: string): string[] {
  writeFileSync(join(folder, 'agentzip.yaml'), text);
  return ['--policy', join(folder, 'agentzip.yaml')];
}

describe('run refuses to start, with exit code 1, and leaves nothing', () => {
  it.each([
    ['a policy that is wrong', () => run(policy('mode: fast\n')), /AZ_POLICY_INVALID: .*:1: mode is "fast"/],
    ['a policy that is missing', () => run(['--policy', '/none.yaml']), /AZ_POLICY_READ: .*ENOENT/],
    [
      'a group that does not exist',
      () => run(policy('server: {socketMode: "0660", group: no-such-group}\n')),
      /AZ_GROUP_UNKNOWN: group no-such-group/,
    ],
    [
      'spans that can not be written',
      () => run(policy('otel: {file: /proc/none/spans}\n')),
      /AZ_OTEL_FILE: .*\/proc\/none\/spans: ENOENT/,
    ],
    [
      'a runtime folder in /proc',
      () => run(['--runtime-dir', '/proc/agentzip']),
      /AZ_RUNTIME_DIR: .*in \/proc/,
    ],
    ['a state folder in /sys', () => run(['--state-dir', '/sys/agentzip']), /AZ_RUNTIME_DIR: .*in \/sys/],
    [
      'another user than root',
      () =>
        run(
          [],
          ['setpriv', '--reuid=65534', '--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search'],
        ),
      /AZ_NOT_ROOT: .*uid 65534/,
    ],
    [
      'a capability that is missing',
      () => run([], ['setpriv', '--bounding-set=-sys_nice', '--inh-caps=-sys_nice']),
      /AZ_CAPABILITY_MISSING: .*CAP_SYS_NICE/,
    ],
  ])('%s', async (_, start, message) => {
    const { code, stdout, stderr } = await start();
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/\nremedy: .+\n$/);
    expect(existsSync(join(folder, 'run/agentzip.sock'))).toBe(false);
    expect(InstanceLock.isHeld(join(folder, 'run'))).toBe(false);
  });

  it('a second instance', async () => {
    const lock = InstanceLock.take(join(folder, 'run'));
    try {
      expect(InstanceLock.isHeld(join(folder, 'run'))).toBe(true);
      const { code, stderr } = await run();
      expect(code).toBe(1);
      const where = `pid ${process.pid}, socket ${folder}/run/agentzip.sock`;
      expect(stderr).toContain(`AZ_ALREADY_RUNNING: another AgentZip runs here (${where})`);
    } finally {
      lock.release();
    }
    expect(InstanceLock.isHeld(join(folder, 'run'))).toBe(false);
  });

  it('a runtime directory that is a file', async () => {
    closeSync(openSync(join(folder, 'run'), 'w'));
    const { code, stderr } = await run();
    expect(code).toBe(1);
    expect(stderr).toMatch(/AZ_RUNTIME_DIR: .*\/run can not be used: (EEXIST|ENOTDIR)/);
  });
});

describe('doctor', () => {
  it('prints a report and ends with 0 where AgentZip can run', async () => {
    const { code, stdout, stderr } = await agentzip(['doctor', '--json']);
    expect([code, stderr]).toEqual([0, '']);
    const { ok, requirements } = JSON.parse(stdout);
    expect(ok).toBe(true);
    expect(requirements.find(({ id }: { id: string }) => id === 'process_madvise')).toMatchObject({
      ok: true,
    });
  });

  it('ends with 1 and names what is missing where it can not', async () => {
    const { code, stdout, stderr } = await agentzip(
      ['doctor'],
      ['setpriv', '--bounding-set=-sys_nice', '--inh-caps=-sys_nice'],
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(/MISSING +CAP_SYS_NICE +no\n +needed: .+\n +remedy: /);
    expect(stderr).toMatch(/AZ_DOCTOR: .*CAP_SYS_NICE/);
  });
});

/** A service in memory, run as the command runs it; `signal` is what a process signal would call. */
function serve(controller: MemoryController) {
  const printed: string[] = [];
  const console = {
    print: (text: string) => printed.push(text),
    warn: (text: string) => printed.push(text),
    printError: (error: unknown) => printed.push(error instanceof AgentZipError ? error.code : String(error)),
  };
  let end: (error?: Error) => void = () => {};
  const ended = new Promise<void>((resolve, reject) => {
    end = (error) => (error ? reject(error) : resolve());
  });
  let begin: () => void = () => {};
  const starting = new Promise<void>((resolve) => (begin = resolve));
  const start = async (_: AgentZipOptions): Promise<Served> => {
    await starting;
    return {
      ...{
        policy: DEFAULT_POLICY,
        socketPath: '/s',
        dashboard: null,
        started: await controller.status(),
        ended,
      },
      ...{ reload: () => {}, on: () => () => {} },
      stop: () => controller.drain().then(() => end()),
    };
  };
  const before = new Set(process.listeners('SIGTERM'));
  const running = runService({}, console, start);
  const [signal] = process.listeners('SIGTERM').filter((listener) => !before.has(listener));
  return { printed, running, begin, end, signal: () => signal('SIGTERM') };
}

describe('the service', () => {
  it('says when it is ready, and drains when it is told to end', async () => {
    const controller = new MemoryController();
    const service = serve(controller);
    service.begin();
    await expect.poll(() => service.printed.join('\n')).toMatch(/agentzip: ready\nagentzip: socket \/s\n/);
    expect(service.printed).toContain('warning: no exec events');
    service.signal();
    await service.running;
    expect(controller.calls).toEqual(['drain']);
  });

  it('drains at once when it is told to end while it starts', async () => {
    const controller = new MemoryController();
    const service = serve(controller);
    service.signal();
    service.signal();
    expect(controller.calls).toEqual([]);
    service.begin();
    await service.running;
    expect(controller.calls).toEqual(['drain']);
  });

  it('goes on, and says so, when there is no memory to drain into', async () => {
    const controller = new MemoryController();
    const details = { neededMiB: 10, availableMiB: 1 };
    controller.onDrain = () => Promise.reject(new AgentZipError('AZ_DRAIN_MEMORY', details));
    const service = serve(controller);
    service.begin();
    await expect.poll(() => service.printed.length).toBeGreaterThan(0);
    service.signal();
    await expect.poll(() => service.printed).toContain('not drained; the service keeps running');
    expect(service.printed).toContain('AZ_DRAIN_MEMORY');
    controller.onDrain = async () => {};
    service.signal();
    await service.running;
  });

  it('fails when its pager is lost', async () => {
    const service = serve(new MemoryController());
    service.begin();
    await expect.poll(() => service.printed.length).toBeGreaterThan(0);
    service.end(new AgentZipError('AZ_PAGER_LOST', { pid: 1, reason: 'it ended' }));
    await expect(service.running).rejects.toMatchObject({ code: 'AZ_PAGER_LOST' });
  });
});
