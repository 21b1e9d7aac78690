import { readlinkSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Following, ProbeWatcher } from '../src/controller/sandboxes/following.js';
import { Registry } from '../src/controller/sandboxes/registry.js';
import type { Sandbox } from '../src/controller/sandboxes/sandbox.js';
import { Probes } from '../src/telemetry/probes.js';
import { probesMissing } from './fixtures/toucher.js';
import { Python } from './support/python.js';

describe.skipIf(probesMissing() !== null)('what descends from a sandbox', () => {
  let probes: Probes;
  let registry: Registry;
  let following: Following;
  let first: Python;
  let stray: Python;
  let one: Sandbox;
  beforeEach(async () => {
    probes = Probes.load();
    const own = { pids: [process.pid], userNamespace: readlinkSync('/proc/self/ns/user') };
    registry = new Registry(own, new ProbeWatcher(probes));
    following = new Following(probes, registry, () => {});
    [first, stray] = [await Python.start(), await Python.start()];
    one = registry.add('one', { pids: [first.pid] }, 'domain');
  });
  afterEach(async () => {
    following.close();
    probes.close();
    await first.stop();
    await stray.stop();
  });

  it('is known when its members are all that is watched for it, whoever else is not known yet', () => {
    const two = registry.add('two', { pids: [stray.pid] }, 'domain');
    registry.leave(two, stray.pid);
    probes.track(stray.pid, two.tag);
    expect([following.knowsLineage(one), following.knowsLineage(two)]).toEqual([true, false]);
  });

  it('is not known while something of it is no member', () => {
    probes.track(stray.pid, one.tag);
    expect(following.knowsLineage(one)).toBe(false);
    probes.untrack(stray.pid);
    expect(following.knowsLineage(one)).toBe(true);
  });

  it('is never known again once some of it was found in another sandbox first', () => {
    probes.track(stray.pid, one.tag);
    const two = registry.add('two', { pids: [stray.pid] }, 'domain');
    expect([following.knowsLineage(one), following.knowsLineage(two)]).toEqual([false, true]);
  });

  it('is not watched for the next sandbox once it is removed', () => {
    probes.track(stray.pid, one.tag);
    registry.remove(one);
    expect(probes.tracked()).toEqual([]);
    expect(registry.add('two', { pids: [first.pid] }, 'domain').tag).not.toBe(one.tag);
  });
});
