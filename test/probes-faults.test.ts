import { afterEach, describe, expect, it } from 'vitest';
import { Probes } from '../src/telemetry/probes.js';
import { PAGE, probesMissing, Recorder, Toucher } from './fixtures/toucher.js';

const PAGES = 64;

describe.skipIf(probesMissing() !== null)('faults of a known process', () => {
  const open: { close?: () => void; end?: () => Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await (one.end?.() ?? one.close?.());
  });

  const load = (): Probes => {
    const probes = Probes.load();
    open.push(probes);
    return probes;
  };
  const start = async (pages = PAGES): Promise<Toucher> => {
    const toucher = await Toucher.start(pages);
    open.push(toucher);
    return toucher;
  };

  it('load and attach all, with nothing to warn of', () => {
    const probes = load();
    expect(probes.warnings).toEqual([]);
    expect([...probes.attached].sort()).toEqual([
      'fault_kernel',
      'fault_user',
      'process_exec',
      'process_exit',
      'process_fork',
      'socket_arrived',
      'socket_closed',
      'socket_read',
      'socket_sent',
    ]);
  });

  it('arrive at exactly the touched addresses, in order, with pid, tag, time and direction', async () => {
    const probes = load();
    const toucher = await start();
    const before = Number(process.hrtime.bigint());
    expect(probes.track(toucher.pid, 42)).toBe(true);
    expect(probes.tracked()).toEqual([toucher.pid]);

    await toucher.do('write', 5, 3, 60, 0);
    await toucher.do('write', 5, 3); // present by now: no fault
    await toucher.do('read', 20, 21);
    await toucher.do('kernel', 33);
    const after = Number(process.hrtime.bigint());

    expect(probes.pending).toBe(true);
    const seen = new Recorder();
    probes.poll(seen);
    expect(probes.pending).toBe(false);
    const inRegion = seen.faults.filter((fault) => toucher.pageOf(fault.address, PAGES) !== null);
    expect(inRegion.map((fault) => (fault.address - toucher.address) / PAGE)).toEqual([
      5, 3, 60, 0, 20, 21, 33,
    ]);
    expect(inRegion.map((fault) => fault.write)).toEqual([true, true, true, true, false, false, true]);
    expect(seen.faults.every((fault) => fault.pid === toucher.pid && fault.tag === 42)).toBe(true);

    const times = seen.faults.map((fault) => fault.timeNs);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(times[0]).toBeGreaterThan(before);
    expect(times.at(-1)).toBeLessThan(after);
  });

  it('come only while they are watched, in order with all else, and are counted together', async () => {
    const probes = Probes.load({ faults: false });
    open.push(probes);
    const toucher = await start();
    probes.track(toucher.pid, 7);
    await toucher.do('write', 1);
    expect(probes.attached).not.toContain('fault_user');
    expect(probes.stats().byKind.faultUser).toBe(0);

    for (const page of [2, 3]) {
      expect([probes.watchFaults(), probes.watchFaults()]).toEqual([true, true]);
      expect(probes.attached.filter((name) => name.startsWith('fault'))).toHaveLength(2);
      await toucher.do('fork', page);
      await toucher.do('reap');
      await toucher.do('write', page);
      probes.ignoreFaults();
      probes.ignoreFaults();
      await toucher.do('write', page + 10);
    }
    expect(probes.warnings).toEqual([]);
    expect(probes.attached).not.toContain('fault_user');

    const seen = new Recorder();
    probes.poll(seen);
    const pages = seen.faults
      .filter(({ pid }) => pid === toucher.pid)
      .map(({ address }) => toucher.pageOf(address, PAGES))
      .filter((page) => page !== null);
    expect(pages).toEqual([2, 3]);
    expect(seen.others.map(([kind]) => kind)).toEqual(['fork', 'exit', 'fork', 'exit']);
    const { faultUser, faultKernel } = probes.stats().byKind;
    expect(faultUser + faultKernel).toBe(seen.faults.length);
    expect(probes.tracked()).toEqual([toucher.pid]);
  });

  it('come from tracked processes only, and stop with untrack', async () => {
    const probes = load();
    const [tracked, untracked] = [await start(), await start()];
    probes.track(tracked.pid, 1);
    await untracked.do('write', 1, 2, 3);
    await tracked.do('write', 1);
    probes.untrack(tracked.pid);
    probes.untrack(tracked.pid);
    expect(probes.tracked()).toEqual([]);
    await tracked.do('write', 2);

    const seen = new Recorder();
    probes.poll(seen);
    expect(seen.faults.some((fault) => fault.pid !== tracked.pid)).toBe(false);
    expect(
      seen.faults.map((fault) => tracked.pageOf(fault.address, PAGES)).filter((page) => page !== null),
    ).toEqual([1]);
  });

  it('add up when the ring is too small: delivered + dropped = done', async () => {
    const pages = 4000;
    const probes = Probes.load({ ringBytes: PAGE });
    open.push(probes);
    const toucher = await start(pages);
    probes.track(toucher.pid, 1);
    await toucher.do('storm', pages);
    probes.untrack(toucher.pid);

    const seen = new Recorder();
    probes.poll(seen);
    const stats = probes.stats();
    const done = Object.values(stats.byKind).reduce((sum, count) => sum + count);
    expect(stats.events).toBe(seen.faults.length);
    expect(stats.events).toBeGreaterThan(50);
    expect(stats.dropped).toBeGreaterThan(0);
    expect(stats.events + stats.dropped).toBe(done);
    expect(stats.byKind.faultUser).toBeGreaterThanOrEqual(pages);

    // The ring works on after it was full.
    probes.track(toucher.pid, 2);
    await toucher.do('kernel', 0);
    await toucher.do('thread');
    expect(probes.poll(seen)).toBeGreaterThan(0);
  });
});
