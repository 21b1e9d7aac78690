import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Probes } from '../src/telemetry/probes.js';
import { probesMissing, Recorder, Toucher } from './fixtures/toucher.js';

const PAGES = 16;

describe.skipIf(probesMissing() !== null)('process trees', () => {
  let probes: Probes;
  let toucher: Toucher;
  let seen: Recorder;
  beforeEach(async () => {
    probes = Probes.load();
    toucher = await Toucher.start(PAGES);
    seen = new Recorder();
    probes.track(toucher.pid, 9);
  });
  afterEach(async () => {
    await toucher.end();
    probes.close();
  });

  const faultsOf = (pid: number): (number | null)[] =>
    seen.faults
      .filter((fault) => fault.pid === pid && fault.tag === 9)
      .map((fault) => toucher.pageOf(fault.address, PAGES))
      .filter((page) => page !== null);

  it('a forked child joins with the same tag, and leaves when it exits', async () => {
    const child = Number(await toucher.do('fork', 7, 2));
    expect(probes.tracked().sort()).toEqual([toucher.pid, child].sort());
    await toucher.do('reap');
    expect(probes.tracked()).toEqual([toucher.pid]);

    probes.poll(seen);
    expect(seen.others).toEqual([
      ['fork', 9, toucher.pid, child],
      ['exit', 9, child],
    ]);
    expect(faultsOf(child)).toEqual([7, 2]);
  });

  it('exec tells the new command name', async () => {
    const child = Number(await toucher.do('exec'));
    probes.poll(seen);
    expect(seen.others).toEqual([
      ['fork', 9, toucher.pid, child],
      ['exec', 9, child, 'true'],
      ['exit', 9, child],
    ]);
  });

  it('a thread is no child, and its end no exit', async () => {
    await toucher.do('thread');
    probes.poll(seen);
    expect(seen.others).toEqual([]);
    expect(probes.tracked()).toEqual([toucher.pid]);
  });

  it('an exit removes the process; it can not be tracked any more', async () => {
    await toucher.end();
    expect(probes.tracked()).toEqual([]);
    expect(probes.track(toucher.pid, 9)).toBe(false);
    expect(probes.tracked()).toEqual([]);
    probes.poll(seen);
    expect(seen.others).toEqual([['exit', 9, toucher.pid]]);
  });

  it('a process killed by a signal leaves too', async () => {
    process.kill(toucher.pid, 'SIGKILL');
    await toucher.end();
    await expect.poll(() => probes.tracked()).toEqual([]);
  });
});
