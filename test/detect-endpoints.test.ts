import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { parsePolicy } from '../src/policy/load.js';
import { endpointKey, Endpoints, parseEndpoint } from '../src/telemetry/endpoints.js';

const hex = (key: Uint8Array): string => Buffer.from(key).toString('hex');

describe('an endpoint', () => {
  it.each([
    ['api.anthropic.com', 'api.anthropic.com', 443],
    ['proxy:8080', 'proxy', 8080],
    ['127.0.0.1:4000', '127.0.0.1', 4000],
    ['10.1.2.3', '10.1.2.3', 443],
    ['::1', '::1', 443],
    ['[2001:db8::1]:8443', '2001:db8::1', 8443],
  ])('%s is host and port', (text, host, port) => {
    expect(parseEndpoint(text)).toEqual({ host, port });
    expect(parsePolicy(`detect: {endpoints: ['${text}']}`).detect.endpoints).toEqual([text]);
  });

  it.each(['', 'https://api.openai.com', 'host:0', 'host:70000', 'a b', '1.2.3', '::1:x', '[::1', '-x.com'])(
    '%j is none, and the policy says what is',
    (text) => {
      expect(() => parsePolicy(`detect: {endpoints: ['${text}']}`)).toThrow(/detect\.endpoints\.0/);
    },
  );

  it.each([
    ['127.0.0.1', 80, '00000000000000000000ffff7f00000150000000'],
    ['::1', 443, '00000000000000000000000000000001bb010000'],
    ['2001:db8::1:0:5', 1, '20010db8000000000000000100000005'.concat('01000000')],
    ['1:2:3:4:5:6:7:8', 256, '00010002000300040005000600070008'.concat('00010000')],
    ['::', 1, '00000000000000000000000000000000'.concat('01000000')],
    ['fe80::', 1, 'fe800000000000000000000000000000'.concat('01000000')],
    ['::ffff:10.0.0.255', 1, '00000000000000000000ffff0a0000ff'.concat('01000000')],
  ])('%s port %i is the key that the kernel compares', (address, port, key) => {
    expect(hex(endpointKey(address, port))).toBe(key);
  });
});

describe('the names of endpoints', () => {
  let endpoints: Endpoints;
  const keys = new Set<string>();
  const names: Record<string, string[]> = {};
  const make = (entries: string[], refreshMs = 20): Endpoints => {
    keys.clear();
    return (endpoints = new Endpoints({
      ...{ entries, refreshMs },
      add: (key) => keys.add(hex(key)),
      remove: (key) => keys.delete(hex(key)),
      resolve: (host) =>
        host in names ? Promise.resolve(names[host]) : Promise.reject(new Error('ENOTFOUND')),
    }));
  };
  afterEach(() => endpoints.close());

  it('are resolved when it begins, and addresses are there at once', async () => {
    names.model = ['10.0.0.1', '::2'];
    make(['model', '10.9.9.9:80']);
    expect(keys.size).toBe(0);
    endpoints.start();
    expect([...keys]).toEqual([hex(endpointKey('10.9.9.9', 80))]);
    await expect.poll(() => keys.size).toBe(3);
    expect(endpoints.warnings).toEqual([]);
  });

  it('follow a change, and keep the addresses before it for a while', async () => {
    names.model = ['10.0.0.1'];
    make(['model']).start();
    await expect.poll(() => keys.size).toBe(1);
    names.model = ['10.0.0.2'];
    await expect.poll(() => keys.size).toBe(2);
  });

  it('that have no address are one warning, which names them, until they have one', async () => {
    delete names.late;
    delete names.never;
    make(['late', 'never']).start();
    await expect.poll(() => endpoints.warnings).toHaveLength(1);
    expect(endpoints.warnings[0]).toMatch(/AZ_ENDPOINT_UNKNOWN: .*late, never.*detect\.endpoints/);
    names.late = ['10.0.0.3'];
    await expect.poll(() => endpoints.warnings[0]).not.toMatch(/late/);
    expect(keys.size).toBe(1);
    // One that is known already and can not be resolved for a while stays known.
    delete names.late;
    await sleep(60);
    expect(endpoints.warnings[0]).not.toMatch(/late/);
    expect(keys.size).toBe(1);
  });
});
