import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import { loadPolicy, parsePolicy } from '../src/policy/load.js';

const folder = mkdtempSync(join(tmpdir(), 'agentzip-policy-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function failure(text: string): AgentZipError {
  try {
    parsePolicy(text, 'agentzip.yaml');
  } catch (error) {
    if (error instanceof AgentZipError) return error;
    throw error;
  }
  throw new Error(`accepted: ${text}`);
}

describe('an error in a policy names file, line, key and what is allowed', () => {
  const cases: [name: string, text: string, message: string, remedy: string][] = [
    [
      'unknown key, with the key that was meant',
      'mode: observe\npager:\n  workers: 2\n  storeMib: 100\n',
      'agentzip.yaml:4: pager.storeMib is not a known key (did you mean storeMiB?)',
      'allowed: frontEnd, tier, zswap, writebackMiB, deviceMiB, storeMiB, stagingMiB, workers, standby',
    ],
    [
      'unknown key that is like no other',
      'zebra: 1\n',
      'agentzip.yaml:1: zebra is not a known key',
      'allowed: version, mode, paths, pager, encoding, pageout, pressure, prefetch, detect, hosts, trust, otel, server, dashboard, log, overrides',
    ],
    [
      'out of range',
      '# mine\nencoding:\n  level: 99\n',
      'agentzip.yaml:3: encoding.level is 99',
      'allowed: a whole number from 1 to 19',
    ],
    [
      'wrong type',
      'prefetch: {enabled: "yes"}\n',
      'agentzip.yaml:1: prefetch.enabled is "yes"',
      'allowed: true or false',
    ],
    [
      'not one of',
      'trust:\n  domain: everyone\n',
      'agentzip.yaml:2: trust.domain is "everyone"',
      'allowed: tenant-template, tenant, sandbox',
    ],
    [
      'relative path',
      '{"paths": {"stateDir": "state"}}',
      'agentzip.yaml:1: paths.stateDir is "state"',
      'allowed: an absolute path, at most 1024 characters',
    ],
    [
      'no URL',
      'otel:\n  endpoint: collector:4318\n',
      'agentzip.yaml:2: otel.endpoint is "collector:4318"',
      'allowed: an http:// or https:// URL without query or null, at most 2048 characters',
    ],
    [
      'header name',
      'otel:\n  headers:\n    "a b": c\n',
      'agentzip.yaml:3: otel.headers.a b is no header name',
      'allowed: letters, digits, _ and -',
    ],
    [
      'mode as a number',
      'server:\n  socketMode: 0600\n',
      'agentzip.yaml:2: server.socketMode is 600',
      'allowed: octal in quotes: "0600", or "0660" with server.group',
    ],
    [
      'open socket without a group',
      'server:\n  socketMode: "0660"\n',
      'agentzip.yaml:2: server.socketMode is "0660", but server.group is not set',
      'allowed: "0600", or set server.group',
    ],
    [
      'cgroups that nobody names',
      'hosts:\n  cgroup:\n    enabled: true\n',
      'agentzip.yaml:3: hosts.cgroup.enabled is true, but hosts.cgroup.include names no cgroups',
      'allowed: false, or set the other too',
    ],
    [
      'a cgroup out of its mount',
      'hosts: {cgroup: {include: [../a]}}\n',
      'agentzip.yaml:1: hosts.cgroup.include.0 is "../a"',
      'allowed: a relative path, as agents/*, at most 512 characters',
    ],
    [
      'a regular expression that is none',
      'hosts: {cgroup: {pattern: "("}}\n',
      'agentzip.yaml:1: hosts.cgroup.pattern is "("',
      'allowed: a regular expression or null, at most 512 characters',
    ],
    [
      'two values that contradict',
      'pager:\n  storeMiB: 64\n',
      'agentzip.yaml:1: pager.stagingMiB is 1024, but pager.storeMiB is 64',
      'allowed: less than pager.storeMiB',
    ],
    ['future version', 'version: 2\n', 'agentzip.yaml:1: version is 2', 'allowed: 1'],
    ['empty section', 'log:\n', 'agentzip.yaml:1: log is null', 'allowed: the keys level'],
    [
      'a list',
      '- mode: off\n',
      'agentzip.yaml:1: the policy is a list',
      'allowed: the keys version, mode, paths, pager, encoding, pageout, pressure, prefetch, detect, hosts, trust, otel, server, dashboard, log, overrides',
    ],
    [
      'a runtime directory whose socket would have too long a name',
      `paths:\n  runtimeDir: /${'d'.repeat(95)}\n`,
      'agentzip.yaml:2: paths.runtimeDir has 96 characters',
      'allowed: an absolute path, at most 90 characters',
    ],
  ];
  it.each(cases)('%s', (_, text, message, remedy) => {
    const error = failure(text);
    expect(error.code).toBe('AZ_POLICY_INVALID');
    expect(error.message).toBe(message);
    expect(error.remedy).toBe(remedy);
  });

  it('reports the first of several in the order of the file', () => {
    expect(failure('log: {level: loud}\nmode: sideways\n').message).toMatch(/:1: log\.level/);
  });

  it('is not misled by keys of the prototype', () => {
    expect(failure('constructor: {}\n').message).toMatch(/constructor is not a known key/);
    expect(failure('__proto__: {}\n').message).toMatch(/__proto__ is not a known key/);
  });
});

describe('syntax', () => {
  it.each([
    ['mode: [a\n', 2],
    ['mode: off\nmode: observe\n', 2],
    ['mode: off\n\tlog: x\n', 2],
    ['{"mode": "off"', 1],
    ['a: !!js/function x\n', 1],
    ['a: 1\n---\nb: 2\n', 2],
  ])('%j', (text, line) => {
    const error = failure(text);
    expect(error.code).toBe('AZ_POLICY_SYNTAX');
    expect(error.details.line).toBe(line);
    expect(error.message).toMatch(/^agentzip\.yaml:\d+:\d+: \S/);
    expect(error.message).not.toMatch(/\n/);
  });

  it('does not unfold an alias bomb', () => {
    const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${`*l${i},`.repeat(9)}]`);
    expect(failure(['l0: &l0 [a]', ...levels].join('\n')).code).toBe('AZ_POLICY_SYNTAX');
  });
});

describe('reading', () => {
  it.each([
    ['missing', () => join(folder, 'none.yaml'), /ENOENT/],
    ['a directory', () => folder, /EISDIR/],
    ['not text', () => binary(), /not UTF-8/],
    ['huge', () => huge(), /more than 1048576 bytes/],
  ])('%s', (_, file, reason) => {
    let error: unknown;
    try {
      loadPolicy(file());
    } catch (caught) {
      error = caught;
    }
    expect(error).toBeInstanceOf(AgentZipError);
    expect((error as AgentZipError).code).toBe('AZ_POLICY_READ');
    expect((error as AgentZipError).message).toMatch(reason);
  });

  function binary(): string {
    const file = join(folder, 'binary.yaml');
    writeFileSync(file, Buffer.from([0xff, 0xfe, 0x00]));
    chmodSync(file, 0o600);
    return file;
  }

  function huge(): string {
    const file = join(folder, 'huge.yaml');
    writeFileSync(file, '# '.padEnd(1024 * 1024 + 1, 'x'));
    return file;
  }
});
