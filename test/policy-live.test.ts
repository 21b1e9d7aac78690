import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AgentZipError } from '../src/errors.js';
import { withDefaults } from '../src/policy/defaults.js';
import { LivePolicy } from '../src/policy/live.js';
import { loadPolicy, parsePolicy } from '../src/policy/load.js';
import { FileWatch } from '../src/policy/watch.js';

describe('a policy that changes', () => {
  it('keeps its sections, so that whoever holds one sees the values of now', () => {
    const live = new LivePolicy(withDefaults({}));
    const { current } = live;
    const { pageout, detect } = current;
    live.apply(
      withDefaults({ mode: 'observe', pageout: { retries: 7 }, detect: { endpoints: ['a.example'] } }),
    );
    expect(live.current).toBe(current);
    expect([current.mode, pageout.retries, detect.endpoints]).toEqual(['observe', 7, ['a.example']]);
  });

  it('tells which keys have changed, once they hold, and counts', () => {
    const live = new LivePolicy(withDefaults({}));
    const told: unknown[] = [];
    live.onChange((changed) => told.push(changed, live.current.prefetch.minUse));
    const overrides = [{ match: { tenant: 'a*' }, set: { mode: 'off' as const } }];
    live.apply(withDefaults({ prefetch: { minUse: 0.5, maxMiB: 1 }, overrides }));
    expect(told).toEqual([['prefetch.minUse', 'prefetch.maxMiB', 'overrides'], 0.5]);
    live.apply(withDefaults({ prefetch: { minUse: 0.5, maxMiB: 1 }, overrides }));
    expect([told.length, live.generation]).toEqual([2, 1]);
  });

  it.each([
    ['paths', { paths: { stateDir: '/elsewhere' } }, ['paths.stateDir']],
    ['sizes of the pager', { pager: { storeMiB: 4096, workers: 3 } }, ['pager.storeMiB', 'pager.workers']],
    ['the level of encoding', { encoding: { level: 9, delta: false } }, ['encoding.level']],
    [
      'the socket',
      { server: { group: 'daemon', socketMode: '0660' } },
      ['server.socketMode', 'server.group'],
    ],
  ])('keeps %s, and says so', (_, given, kept) => {
    const live = new LivePolicy(withDefaults({}));
    const change = live.reload(() => withDefaults(given));
    expect([change.kept, live.kept]).toEqual([kept, kept]);
    for (const key of kept) expect(change.changed).not.toContain(key);
    expect(live.current.pager).toEqual(withDefaults({}).pager);
    expect(live.current.paths).toEqual(withDefaults({}).paths);
    expect(live.current.server).toEqual(withDefaults({}).server);
    expect(live.current.encoding.level).toBe(3);
    // Put back, it is no difference any more.
    live.reload(() => withDefaults({}));
    expect(live.kept).toEqual([]);
  });

  it('can change the tier, of all that the pager was started with', () => {
    const live = new LivePolicy(withDefaults({}));
    const change = live.reload(() => withDefaults({ pager: { tier: 'zram', workers: 3 } }));
    expect(change).toEqual({ changed: ['pager.tier'], kept: ['pager.workers'] });
    expect(live.current.pager).toEqual({ ...withDefaults({}).pager, tier: 'zram' });
  });

  it('is not touched by one that is refused, as a whole', () => {
    const live = new LivePolicy(withDefaults({}), '/p');
    expect(() => live.reload(() => parsePolicy('mode: observe\npageout: {retries: many}\n', '/p'))).toThrow();
    expect(live.refused).toMatchObject({ code: 'AZ_POLICY_INVALID' });
    live.prepare = () => {
      throw new AgentZipError('AZ_OTEL_FILE', { file: '/x', reason: 'EACCES' });
    };
    expect(() => live.reload(() => withDefaults({ mode: 'observe' }))).toThrow();
    expect([live.current, live.generation]).toEqual([withDefaults({}), 0]);
    live.prepare = () => {};
    live.reload(() => withDefaults({ mode: 'observe' }));
    expect([live.refused, live.current.mode]).toEqual([null, 'observe']);
  });
});

describe('a file that is watched', () => {
  let folder: string;
  let file: string;
  let watch: FileWatch;
  let changes = 0;
  beforeEach(() => {
    folder = mkdtempSync(`${tmpdir()}/agentzip-test-`);
    file = join(folder, 'agentzip.yaml');
    writeFileSync(file, 'mode: off\n');
    changes = 0;
  });
  afterEach(() => {
    watch.close();
    rmSync(folder, { recursive: true });
  });
  const start = (): void => void (watch = new FileWatch(file, () => changes++));
  const count = (n: number) => expect.poll(() => changes, { timeout: 10_000 }).toBe(n);

  it('tells of a change in place, once for what is written in several steps', async () => {
    start();
    for (const text of ['m', 'mode:', 'mode: observe\n']) {
      writeFileSync(file, text);
      await sleep(20);
    }
    await count(1);
    await sleep(300);
    expect(changes).toBe(1);
    expect(loadPolicy(file).mode).toBe('observe');
  });

  it('tells when another file takes its name, again and again', async () => {
    start();
    for (const [i, mode] of ['observe', 'pressure', 'proactive'].entries()) {
      writeFileSync(`${file}.new`, `mode: ${mode}\n`);
      renameSync(`${file}.new`, file);
      await count(i + 1);
      expect(loadPolicy(file).mode).toBe(mode);
    }
  });

  it('tells when a link above it leads elsewhere, as in Kubernetes', async () => {
    for (const [name, mode] of Object.entries({ '..one': 'observe', '..two': 'pressure' })) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'agentzip.yaml'), `mode: ${mode}\n`);
    }
    symlinkSync('..one', join(folder, '..data'));
    unlinkSync(file);
    symlinkSync('..data/agentzip.yaml', file);
    start();
    symlinkSync('..two', join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
    await count(1);
    expect(loadPolicy(file).mode).toBe('pressure');
  });

  it('tells when it goes and comes back, and of nothing when the text is the same', async () => {
    start();
    writeFileSync(file, 'mode: off\n');
    writeFileSync(join(folder, 'other.yaml'), 'mode: observe\n');
    await sleep(400);
    expect(changes).toBe(0);
    unlinkSync(file);
    await count(1);
    writeFileSync(file, 'mode: off\n');
    await count(2);
  });
});
