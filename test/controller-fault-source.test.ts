import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import type { Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Policies } from '../src/controller/policies.js';
import { LivePolicy } from '../src/policy/live.js';
import { AgentController } from '../src/controller/controller.js';
import {
  chooseFaultSource,
  readsOf,
  seenBy,
  type FaultSource,
} from '../src/controller/faults/fault-source.js';
import { close, tryLock } from '../src/native/files.js';
import { createTelemetry } from '../src/otel/telemetry.js';
import { PagerClient } from '../src/pager/client.js';
import type { Handlers, SlotHandlers } from '../src/pager/control.js';
import { serveControl } from '../src/pager/control-server.js';
import { foreignSlotHandlers } from '../src/pager/swap/foreign-slots.js';
import { pagerLock } from '../src/pager/options.js';
import { createSlotLog, type SlotLogMapping, SlotLogWriter } from '../src/pager/requests/slot-log.js';
import { Probes } from '../src/telemetry/probes.js';
import { DEFAULT_POLICY, withDefaults } from '../src/policy/defaults.js';
import { probesMissing } from './fixtures/toucher.js';
import { HELLO, NO_STATUS } from './support/scripted-pager.js';

let folder: string;
let server: Server;
const sockets: Socket[] = [];
let client: PagerClient;
let source: FaultSource | undefined;
let log: SlotLogMapping;
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  log = createSlotLog();
});
afterEach(() => {
  source?.reads?.close();
  source?.probes.close();
  source = undefined;
  client.close();
  kill();
  close(log.fd);
  rmSync(folder, { recursive: true });
});

/** A pager that answers these requests, and refuses all others as every pager does. */
async function pagerOf(handlers: Partial<Handlers>): Promise<void> {
  await listen(handlers);
  client = await PagerClient.connect(`${folder}/pager.sock`);
}
async function listen(handlers: Partial<Handlers>): Promise<void> {
  server = await serveControl(`${folder}/pager.sock`, handlers as Handlers);
  server.on('connection', (socket: Socket) => sockets.push(socket));
}
function kill(): void {
  server.close();
  for (const socket of sockets.splice(0)) socket.destroy();
}
const open = async (faults: 'reads' | 'probes'): Promise<FaultSource> =>
  (source = await chooseFaultSource(client, Probes.load({ faults: false }), {
    ...DEFAULT_POLICY.detect,
    faults,
  }));
const answers = (): Partial<Handlers> => ({ readLog: () => ({ pid: process.pid, fd: log.fd }) });
const seen = ({ probes, reads }: FaultSource): string => seenBy(probes, { able: reads !== null });

test('with a pager that tells what it reads no page fault is probed', async () => {
  await pagerOf(answers());
  const { reads, probes, warnings } = await open('reads');
  new SlotLogWriter(log.address).note(42);
  const slots: number[] = [];
  reads?.drain((slot) => slots.push(slot));
  expect(slots).toEqual([42]);
  expect(warnings).toEqual([]);
  expect(probes.attached).not.toContain('fault_user');
  expect(seen(source!)).toBe('reads');
});

test.skipIf(probesMissing() !== null)(
  'with one that is older, and does not, page faults are probed, with one warning',
  async () => {
    await pagerOf({});
    const { reads, probes, warnings } = await open('reads');
    expect(reads).toBeNull();
    expect(warnings).toEqual([
      'the pager does not tell what is read on demand: it is older; drain and start again to have it replaced',
    ]);
    expect(probes.attached).toContain('fault_user');
    expect(seen(source!)).toBe('probes');
  },
);

test('one that is not asked at every fault, as behind zram, says so', async () => {
  await pagerOf({ readLog: foreignSlotHandlers({} as SlotHandlers).readLog });
  const warnings: string[] = [];
  expect(await readsOf(client, warnings)).toBeNull();
  expect(warnings).toEqual([expect.stringMatching(/read on demand: .*zram is between swap and the pager/)]);
});

test('one that may not be looked into is a warning with the reason', async () => {
  await pagerOf({ readLog: () => ({ pid: 2 ** 22 + 1, fd: log.fd }) });
  const warnings: string[] = [];
  expect(await readsOf(client, warnings)).toBeNull();
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/pidfd_open/);
});

test.skipIf(probesMissing() !== null)('the policy can ask for probes', async () => {
  await pagerOf(answers());
  const { reads, probes, warnings } = await open('probes');
  expect([reads, warnings]).toEqual([null, []]);
  expect(probes.attached).toContain('fault_user');
});

test('what a pager reads that has taken over is known too; of one that does not tell, the probes, and a warning says so', async () => {
  const more = 20_000;
  const rest = { hello: () => HELLO, doubtSole: () => ({}), status: () => NO_STATUS };
  const lock = openSync(pagerLock(folder), 'w');
  expect(tryLock(lock)).toBe(true);
  await pagerOf({ ...rest, ...answers() });
  const policy = withDefaults({ paths: { stateDir: folder, runtimeDir: folder } });
  const telemetry = createTelemetry(policy.otel, { version: 'test', instance: 'test' });
  const controller = await AgentController.over(
    client,
    new Policies(new LivePolicy(policy)),
    telemetry,
    await open('reads'),
  );
  const next = createSlotLog();
  const told = async (): Promise<[string, number]> => {
    const { faults, lostReads } = (await controller.status()).probes;
    return [faults, lostReads];
  };
  try {
    expect(await told()).toEqual(['reads', 0]);
    kill();
    await listen({ ...rest, readLog: () => ({ pid: process.pid, fd: next.fd }) });
    // More than the log holds: that some were lost shows that it is read.
    const writer = new SlotLogWriter(next.address);
    await expect
      .poll(async () => {
        for (let slot = 0; slot < more; slot++) writer.note(slot);
        return (await told())[1];
      })
      .toBeGreaterThan(0);
    kill();
    await listen(rest);
    await expect.poll(told).toEqual([probesMissing() === null ? 'probes' : 'none', 0]);
    const { warnings } = (await controller.status()).probes;
    expect(warnings.filter((line) => line.includes('read on demand'))).toHaveLength(1);
  } finally {
    await controller.close();
    await telemetry.shutdown();
    close(next.fd);
    closeSync(lock);
  }
});
