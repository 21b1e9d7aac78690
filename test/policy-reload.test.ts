import { existsSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import type { Requests } from '../src/pager/protocol.js';
import { withDefaults } from '../src/policy/defaults.js';
import { parsePolicy } from '../src/policy/load.js';
import type { PartialPolicy } from '../src/policy/policy.js';
import { Bench, until } from './support/controller.js';
import type { Python } from './support/python.js';

/** A running controller whose policy becomes another one. */
let bench: Bench;
let python: Python;
let opened: Requests['openWindow']['request'][];
beforeEach(async () => {
  opened = [];
  bench = await Bench.start({
    openWindow: (request) => {
      opened.push(request);
      return {};
    },
  });
  python = await bench.python();
  await bench.controller.putSandbox('one', { pids: [python.pid], tenant: 'acme' });
});
afterEach(() => bench.stop());

const apply = (given: PartialPolicy) => {
  const { paths, otel } = bench.live.current;
  return bench.live.apply(withDefaults({ ...given, paths, otel: { ...otel, ...given.otel } }));
};
const request = (expectedMs = 60_000): void =>
  bench.controller.event('one', { type: 'llm_request_sent', expectedMs });
const end = (): void => bench.controller.event('one', { type: 'tool_start' });
const sandbox = () => bench.controller.getSandbox('one');

test('pageout: the next wait is judged by the new setting', async () => {
  request(5_000);
  end();
  apply({ pageout: { minWindowMs: 10_000 } });
  request(5_000);
  expect(await sandbox()).toMatchObject({ windows: 1, skippedWindows: 1, lastSkip: 'expected_short' });
});

test('mode: windows end at once, none opens, and later they do again', async () => {
  request();
  await until(() => opened.length === 1);
  apply({ mode: 'observe' });
  await until(async () => (await sandbox()).lastWindow?.reason === 'shutdown');
  expect((await bench.controller.status()).enabled).toBe(false);
  end();
  request();
  expect(await sandbox()).toMatchObject({ windows: 1 });
  end();
  apply({ mode: 'proactive' });
  request();
  await until(() => opened.length === 2);
  expect((await bench.controller.status()).enabled).toBe(true);
});

test('mode: what a host has disabled stays so', async () => {
  bench.controller.disable();
  apply({ mode: 'pressure' });
  apply({ mode: 'proactive' });
  request();
  expect(await sandbox()).toMatchObject({ windows: 0 });
});

test('encoding: the next window tells the pager', async () => {
  request();
  await until(() => opened.length === 1);
  end();
  apply({ encoding: { delta: false, cutoff: 0.5, level: 9 } });
  request();
  await until(() => opened.length === 2);
  expect(opened[0].encoding).toMatchObject({ delta: true, cutoff: 0.9 });
  expect(opened[1].encoding).toMatchObject({ delta: false, cutoff: 0.5 });
  expect(opened[1].encoding).not.toHaveProperty('level');
});

test('prefetch: what is bet holds from the next tool on', async () => {
  const bets = async () =>
    (await bench.controller.explain('one')).decisions.find(({ what }) => what === 'prefetch');
  apply({ prefetch: { minUse: 0.7, start: 'first_token' } });
  expect(await bets()).toMatchObject({ value: 'on', numbers: { minUse: 0.7 } });
  apply({ prefetch: { enabled: false } });
  expect(await bets()).toMatchObject({ value: 'off' });
});

test('pressure: the host is judged by the new thresholds at the next look', async () => {
  apply({ pressure: { availablePercent: 100 } });
  await until(async () => (await bench.controller.status()).memory.short);
});

test('trust: a sandbox that is registered keeps its domain, the next one gets the new one', async () => {
  const domains = async () => {
    const { pid } = await bench.python();
    await bench.controller.putSandbox('two', { pids: [pid], tenant: 'acme' });
    return (await bench.controller.explain('two')).decisions.find(({ what }) => what === 'trust domain')
      ?.value;
  };
  apply({ trust: { domain: 'tenant' } });
  expect(await domains()).toBe('acme');
  const one = await bench.controller.explain('one');
  expect(one.decisions.find(({ what }) => what === 'trust domain')).toMatchObject({
    value: ':one',
    because: expect.stringContaining('registered under tenant-template'),
  });
});

test('otel: spans go to the new file, metrics are made anew', async () => {
  const file = `${bench.folder}/other`;
  bench.telemetry.renew({ ...bench.live.current.otel, file });
  request();
  await until(() => opened.length === 1);
  end();
  await until(async () => (await sandbox()).lastWindow !== null);
  await bench.telemetry.shutdown();
  expect(existsSync(file)).toBe(true);
  expect(() => bench.telemetry.renew({ ...bench.live.current.otel, file: '/none/x' })).toThrow(
    expect.objectContaining({ code: 'AZ_OTEL_FILE' }),
  );
});

describe('the status', () => {
  it('tells why a policy was refused, and what is kept, as long as it is so', async () => {
    const refuse = () => parsePolicy('mode: fast\n', '/etc/agentzip.yaml');
    expect(() => bench.live.reload(refuse)).toThrow();
    const refused = (await bench.controller.status()).policy.refused;
    expect(refused).toMatchObject({
      code: 'AZ_POLICY_INVALID',
      message: expect.stringContaining('yaml:1: mode'),
    });
    expect((await bench.controller.status()).alerts).toEqual([refused]);
    const { paths, otel } = bench.live.current;
    bench.live.reload(() => withDefaults({ pager: { workers: 5 }, paths, otel }));
    const { policy, alerts } = await bench.controller.status();
    expect(policy).toMatchObject({ kept: ['pager.workers'], refused: null, file: null });
    expect(alerts).toMatchObject([
      { code: 'AZ_POLICY_KEPT', message: expect.stringContaining('pager.workers') },
    ]);
    bench.live.reload(() => withDefaults({ paths, otel }));
    expect((await bench.controller.status()).alerts).toEqual([]);
  });
});
