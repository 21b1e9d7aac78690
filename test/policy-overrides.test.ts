import { afterEach, describe, expect, it, test } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import type { Requests } from '../src/pager/protocol.js';
import { withDefaults } from '../src/policy/defaults.js';
import { parsePolicy } from '../src/policy/load.js';
import { globMatches, matching, policyFor } from '../src/policy/overrides.js';
import { Bench, until } from './support/controller.js';

const POLICY = `
mode: proactive
overrides:
  - match: {tenant: 'acme*'}
    set:
      mode: observe
      prefetch: {maxMiB: 64, minUse: 0.5}
  # the last counts
  - match:
      tenant: acme
      template: py-3.1?
    set: {mode: pressure, encoding: {delta: false}, prefetch: {minUse: 0.1}}
  - match: {sandbox: 'box-*'}
    set: {pageout: {hotPhases: 2}, trust: {domain: sandbox}}
`;

describe('patterns', () => {
  it.each([
    ['*', '', true],
    ['*', 'anything', true],
    ['a*', 'a', true],
    ['a*c', 'abbc', true],
    ['a*c', 'abcd', false],
    ['*a*b*', 'xxaxxbxx', true],
    ['a?c', 'abc', true],
    ['a?c', 'ac', false],
    ['', 'a', false],
    ['box.7', 'boxx7', false],
    ['[ab]', 'a', false],
    ['A', 'a', false],
  ])('%s and %s: %s', (pattern, text, expected) => expect(globMatches(pattern, text)).toBe(expected));

  it('take no longer for one that is meant to take long', () => {
    const started = performance.now();
    expect(globMatches(`${'*a'.repeat(64)}b`, 'a'.repeat(128))).toBe(false);
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});

describe('overrides', () => {
  const policy = parsePolicy(POLICY, '/etc/agentzip.yaml');

  it('hold where every pattern matches, the last in the file for each key', () => {
    const both = policyFor(policy, { sandbox: 'x', tenant: 'acme', template: 'py-3.1x' });
    expect([both.mode, both.encoding.delta, both.prefetch.minUse, both.prefetch.maxMiB]).toEqual([
      ...['pressure', false, 0.1, 64],
    ]);
    expect(policyFor(policy, { sandbox: 'x', tenant: 'acme-2' }).mode).toBe('observe');
    expect(policyFor(policy, { sandbox: 'x', tenant: 'other' })).toBe(policy);
    expect(policyFor(policy, { sandbox: 'box-7' })).toMatchObject({
      ...{ mode: 'proactive', pageout: { hotPhases: 2, retries: 2 }, trust: { domain: 'sandbox' } },
    });
    expect(policy.prefetch).toMatchObject({ minUse: 0.2, maxMiB: 128 });
  });

  it('match nothing by what a sandbox does not name', () => {
    expect(
      matching(parsePolicy('overrides: [{match: {tenant: "*"}, set: {mode: off}}]'), { sandbox: 'x' }),
    ).toEqual([]);
  });

  it('know where they stand', () => {
    expect(policy.overrides.map(({ at }) => at)).toEqual(
      [4, 9, 13].map((line) => `/etc/agentzip.yaml:${line}`),
    );
  });
});

describe('an override that is wrong names its line', () => {
  it.each([
    [
      '- match: {}\n  set: {mode: off}',
      ':2: overrides.0.match is empty',
      'the keys sandbox, template, tenant',
    ],
    [
      '- match: {tenant: a}',
      ':2: overrides.0.set is missing',
      'the keys mode, encoding, pageout, prefetch, trust',
    ],
    [
      '- match: {tenat: a}\n  set: {mode: off}',
      'overrides.0.match.tenat is not a known key (did you mean tenant?)',
      'sandbox, template, tenant',
    ],
    [
      '- match: {tenant: a}\n  set:\n    encoding: {level: 3}',
      ':4: overrides.0.set.encoding.level is not a known key',
      'cutoff, delta',
    ],
    [
      '- match: {tenant: a}\n  set:\n    prefetch:\n      minUse: 7',
      ':5: overrides.0.set.prefetch.minUse is 7',
      'a number from 0.01 to 1',
    ],
    [
      '- match: {tenant: a}\n  set: {log: {level: debug}}',
      'overrides.0.set.log is not a known key',
      'mode, encoding',
    ],
    ['- match: {tenant: ""}\n  set: {mode: off}', 'overrides.0.match.tenant is ""', 'a pattern'],
    [
      '- match: {tenant: a}\n  set: {mode: off}\n  at: here',
      'overrides.0.at is not a known key',
      'match, set',
    ],
    ['{match: {tenant: a}}', ':1: overrides is a section', 'a list of at most 256'],
  ])('%j', (text, message, remedy) => {
    const indented = text.replaceAll(/^/gm, '  ');
    try {
      parsePolicy(`overrides:\n${indented}\n`, 'p');
      expect.fail('accepted');
    } catch (error) {
      expect(error).toBeInstanceOf(AgentZipError);
      expect((error as AgentZipError).message).toContain(message);
      expect((error as AgentZipError).remedy).toContain(remedy);
    }
  });
});

let bench: Bench | undefined;
afterEach(async () => {
  await bench?.stop();
  bench = undefined;
});

test('each sandbox is treated by its own policy', async () => {
  const opened: Requests['openWindow']['request'][] = [];
  const script = {
    openWindow: (request: Requests['openWindow']['request']) => {
      opened.push(request);
      return {};
    },
  };
  bench = await Bench.start(script, {
    overrides: [
      { match: { tenant: 'quiet' }, set: { mode: 'off' } },
      { match: { sandbox: 'plain-*' }, set: { encoding: { delta: false }, pageout: { minWindowMs: 9_000 } } },
    ],
  });
  const { controller } = bench;
  for (const [id, tenant] of Object.entries({ one: 'acme', two: 'quiet', 'plain-3': 'acme' })) {
    const { pid } = await bench.python();
    await controller.putSandbox(id, { pids: [pid], tenant });
  }
  const ask = (id: string, expectedMs: number) =>
    controller.event(id, { type: 'llm_request_sent', expectedMs });
  for (const id of ['one', 'two', 'plain-3']) ask(id, 5_000);
  await until(() => opened.length === 1);
  const windows = async () => (await controller.status()).sandboxes.map((s) => [s.windows, s.skippedWindows]);
  expect(await windows()).toEqual([
    [1, 0],
    [0, 0],
    [0, 1],
  ]);
  ask('plain-3', 10_000);
  await until(() => opened.length === 2);
  expect(opened.map(({ owner, encoding }) => [owner, encoding?.delta])).toEqual([
    ['one', true],
    ['plain-3', false],
  ]);
  // A reload reaches them too.
  const { paths, otel } = bench.live.current;
  bench.live.apply(
    withDefaults({ paths, otel, overrides: [{ match: { sandbox: 'one' }, set: { mode: 'off' } }] }),
  );
  await until(async () => (await controller.getSandbox('one')).lastWindow?.reason === 'shutdown');
  expect((await controller.getSandbox('plain-3')).lastWindow).toBeNull();
  ask('two', 5_000);
  await until(() => opened.length === 3);
});
