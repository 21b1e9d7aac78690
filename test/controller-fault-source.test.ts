import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:net';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openFaultSource, readsOf, seenBy, type FaultSource } from '../src/controller/fault-source.js';
import { close } from '../src/native/files.js';
import { PagerClient } from '../src/pager/client.js';
import type { Handlers } from '../src/pager/control.js';
import { serveControl } from '../src/pager/control-server.js';
import { createReadLog, type ReadLogMapping, ReadLogWriter } from '../src/pager/read-log.js';
import { DEFAULT_POLICY } from '../src/policy/defaults.js';
import { probesMissing } from './fixtures/toucher.js';

let folder: string;
let server: Server;
let client: PagerClient;
let source: FaultSource | undefined;
let log: ReadLogMapping;
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
  log = createReadLog();
});
afterEach(() => {
  source?.reads?.close();
  source?.probes.close();
  source = undefined;
  client.close();
  server.close();
  close(log.fd);
  rmSync(folder, { recursive: true });
});

/** A pager that answers these requests, and refuses all others as every pager does. */
async function pagerOf(handlers: Partial<Handlers>): Promise<void> {
  server = await serveControl(`${folder}/pager.sock`, handlers as Handlers);
  client = await PagerClient.connect(`${folder}/pager.sock`);
}
const open = async (faults: 'reads' | 'probes'): Promise<FaultSource> =>
  (source = await openFaultSource(client, { ...DEFAULT_POLICY.detect, faults }));
const answers = (): Partial<Handlers> => ({ readLog: () => ({ pid: process.pid, fd: log.fd }) });
const seen = ({ probes, reads }: FaultSource): string => seenBy(probes, { able: reads !== null });

test('with a pager that tells what it reads no page fault is probed', async () => {
  await pagerOf(answers());
  const { reads, probes, warnings } = await open('reads');
  new ReadLogWriter(log.address).note(42);
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
