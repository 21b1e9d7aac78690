import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Claimant, SLICE_VECTORS, Turns } from '../src/controller/windows/turns.js';

const never = new AbortController().signal;
const named = (key: string, signal = never, deadline = Infinity): Claimant => ({ key, signal, deadline });

/** A job of so many vectors that notes its name for each. */
const job = (log: string[], name: string, vectors: number) => async (turn: () => Promise<void>) => {
  for (let i = 0; i < vectors; i++) {
    await turn();
    log.push(name);
    await tick();
  }
};

/** Runs of equal names, with their length. */
const runs = (log: string[]): [string, number][] =>
  log.reduce<[string, number][]>((found, name) => {
    const last = found.at(-1);
    if (last?.[0] === name) last[1]++;
    else found.push([name, 1]);
    return found;
  }, []);

test('one page-out at a time, in order of arrival', async () => {
  const turns = new Turns();
  const log: string[] = [];
  await Promise.all(['a', 'b', 'c'].map((name) => turns.pageOut(named(name), job(log, name, 5))));
  expect(runs(log)).toEqual([
    ['a', 5],
    ['b', 5],
    ['c', 5],
  ]);
});

test('a big sandbox gives way after its slice, and comes back after those that wait', async () => {
  const turns = new Turns();
  const log: string[] = [];
  await Promise.all([
    turns.pageOut(named('big'), job(log, 'big', 150)),
    turns.pageOut(named('small'), job(log, 'small', 10)),
  ]);
  expect(runs(log)).toEqual([
    ['big', 64],
    ['small', 10],
    ['big', 86],
  ]);
});

test('page-outs wait while anything is being restored', async () => {
  const turns = new Turns();
  const log: string[] = [];
  let restored = (): void => {};
  const restore = turns.restore(() => new Promise<void>((resolve) => (restored = resolve)));
  const out = turns.pageOut(named('a'), job(log, 'a', 3));
  for (let i = 0; i < 5; i++) await tick();
  expect(log).toEqual([]);
  restored();
  await Promise.all([restore, out]);
  expect(log).toEqual(['a', 'a', 'a']);
});

test('a window that ends while it waits never runs, and holds up nobody', async () => {
  const turns = new Turns();
  const log: string[] = [];
  const window = new AbortController();
  const first = turns.pageOut(named('a'), job(log, 'a', 5));
  const waiting = turns.pageOut(named('ended', window.signal), job(log, 'ended', 5));
  const last = turns.pageOut(named('c'), job(log, 'c', 2));
  window.abort();
  await waiting;
  await Promise.all([first, last]);
  expect(runs(log)).toEqual([
    ['a', 5],
    ['c', 2],
  ]);
});

test('a window that ends during a restore is let go at once', async () => {
  const turns = new Turns();
  const window = new AbortController();
  let restored = (): void => {};
  const restore = turns.restore(() => new Promise<void>((resolve) => (restored = resolve)));
  const out = turns.pageOut(named('a', window.signal), async (turn) => turn());
  await tick();
  window.abort();
  await out;
  restored();
  await restore;
});

test('a failure passes the turn on', async () => {
  const turns = new Turns();
  const log: string[] = [];
  const failing = turns.pageOut(named('a'), async () => {
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  await turns.pageOut(named('b'), job(log, 'b', 1));
  expect(log).toEqual(['b']);
});

test('it is idle until somebody pages out, and again after the last that waited', async () => {
  const turns = new Turns();
  const seen: boolean[] = [];
  const look = async (): Promise<void> => void seen.push(turns.idle);
  expect(turns.idle).toBe(true);
  await Promise.all([turns.pageOut(named('a'), look), turns.pageOut(named('b'), look)]);
  expect(seen).toEqual([false, false]);
  expect(turns.idle).toBe(true);
});

test('a window that ends soon goes before those that came earlier, slice by slice', async () => {
  const turns = new Turns(() => 0);
  const log: string[] = [];
  await Promise.all([
    turns.pageOut(named('first'), job(log, 'first', SLICE_VECTORS + 1)),
    turns.pageOut(named('later', never, 9000), job(log, 'later', 5)),
    turns.pageOut(named('soon', never, 1000), job(log, 'soon', SLICE_VECTORS + 2)),
  ]);
  expect(runs(log)).toEqual([
    ['first', SLICE_VECTORS],
    ['soon', SLICE_VECTORS],
    ['later', 5],
    ['soon', 2],
    ['first', 1],
  ]);
});

test('a window that ends while it waits for its next slice lets the others go on', async () => {
  const turns = new Turns();
  const log: string[] = [];
  const window = new AbortController();
  const big = turns.pageOut(named('big', window.signal), async (turn) => {
    for (let i = 0; i < 100 && !window.signal.aborted; i++) {
      await turn();
      if (!window.signal.aborted) log.push('big');
      await tick();
    }
  });
  const other = turns.pageOut(named('other'), async (turn) => {
    await turn();
    window.abort();
    log.push('other');
  });
  await Promise.all([big, other]);
  expect(runs(log)).toEqual([
    ['big', SLICE_VECTORS],
    ['other', 1],
  ]);
  expect(turns.idle).toBe(true);
});
