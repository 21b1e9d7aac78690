import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import { InstanceLock } from '../src/plugin/lock.js';
import { AdoptedPager } from './support/adopted-pager.js';
import { agentzip, leaveDeadSocket } from './support/command.js';
import { startControlServer, type TestServer } from './support/control-server.js';

const cleanup: (() => unknown)[] = [];
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentzip-drain-'));
  cleanup.push(() => rmSync(folder, { recursive: true, force: true }));
});
afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step();
});

const drain = (...words: string[]) => agentzip(['drain', '--runtime-dir', folder, ...words]);

/** A service in the folder that ends, as the real one does, after it was drained. */
async function service(): Promise<TestServer> {
  const lock = InstanceLock.take(folder);
  const server = await startControlServer({ socketPath: join(folder, 'agentzip.sock') });
  cleanup.push(() => server.stop());
  void server.gate.drained.then(async () => {
    await server.server.close();
    setTimeout(() => lock.release(), 300);
  });
  return server;
}

/** A pager whose service is gone. */
async function pager(): Promise<AdoptedPager> {
  const orphan = await AdoptedPager.start(folder);
  cleanup.push(() => orphan.stop());
  return orphan;
}

describe('drain', () => {
  it('drains the service and returns when it has gone', async () => {
    const { controller } = await service();
    expect(await drain()).toEqual({ code: 0, stdout: 'agentzip: drained\n', stderr: '' });
    expect(controller.calls).toEqual(['drain']);
    expect(existsSync(join(folder, 'agentzip.sock'))).toBe(false);
    expect(InstanceLock.isHeld(folder)).toBe(false);
  });

  it('drains the pager when the service was killed', async () => {
    leaveDeadSocket(join(folder, 'agentzip.sock'));
    const { asked } = await pager();
    expect(JSON.parse((await drain('--json')).stdout)).toEqual({ drained: 'pager' });
    expect(asked).toEqual(['hello', 'drain']);
  });

  it('fails with the numbers when memory does not suffice', async () => {
    const { controller } = await service();
    const details = { neededMiB: 900, availableMiB: 80 };
    controller.onDrain = () => Promise.reject(new AgentZipError('AZ_DRAIN_MEMORY', details));
    const { code, stderr } = await drain();
    expect(code).toBe(1);
    expect(stderr).toMatch(/AZ_DRAIN_MEMORY: .*900 MiB.* 80 MiB/);
    controller.onDrain = async () => {};
    expect((await drain()).code).toBe(0);
  });

  it('passes on why a pager refuses', async () => {
    const { answers } = await pager();
    answers.drain = { error: { code: 'AZ_DRAIN_MEMORY', details: { neededMiB: 900, availableMiB: 80 } } };
    const { code, stderr } = await drain();
    expect(code).toBe(1);
    expect(stderr).toMatch(/AZ_DRAIN_MEMORY: .*900 MiB/);
  });

  it('has nothing to do when neither runs', async () => {
    const { code, stderr } = await drain();
    expect(code).toBe(1);
    expect(stderr).toMatch(/AZ_NOT_RUNNING/);
  });
});
