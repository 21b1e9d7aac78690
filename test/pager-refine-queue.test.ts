import { EventEmitter } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { CLASSES } from '../src/pager/refine/gains.js';
import { NO_TEMPLATE_PAGE } from '../src/pager/protocol.js';
import { RefineQueue } from '../src/pager/refine/refine-queue.js';
import { monotonicMs } from '../src/schedule/clock.js';
import type { RefineReply, RefineRequest } from '../src/pager/threads.js';
import { testRandom } from './support/seed.js';

const BATCH = 64;
const TEMPLATE_PAGES = 8000;

/** A worker that keeps what it is given until told to answer. */
class IdleWorker extends EventEmitter {
  readonly given: RefineRequest[] = [];

  postMessage(request: RefineRequest): void {
    this.given.push(request);
  }

  /** Owner of what it was given last, with what kind of work. */
  get last(): string {
    const request = this.given.at(-1);
    if (request?.op === 'refine') return `${request.deferred ? 'refine later' : 'refine'} ${request.owner}`;
    if (request?.op === 'shrink') return `shrink from ${request.from}`;
    return request?.op === 'cluster' ? `cluster ${request.task.owner}` : 'nothing';
  }

  /** Of each page, by its template address: bytes saved and ms. */
  worth: (templatePage: number) => readonly [savedBytes: number, cpuMs: number] = () => [1, 1];

  /** Time that refining a page takes it, ms; only making it smaller takes a third. */
  msAPage = 0;

  /** Says that it has done what it was given last, or the first `processed` pages of it, some of them only made smaller. */
  done(processed?: number, deferred: number[] = []): void {
    const request = this.given.at(-1);
    if (request?.op === 'refine') {
      const all = Array.from(request.templatePages, this.worth);
      this.say({
        owner: request.owner,
        processed: processed ?? request.slots.length,
        deferred,
        trains: false,
        savedBytes: all.reduce((sum, [bytes]) => sum + bytes, 0),
        cpuMs: all.reduce((sum, [, ms]) => sum + ms, 0),
        endedAtMs: monotonicMs() + (this.msAPage * request.slots.length) / (request.rushed ? 3 : 1),
      });
    }
    if (request?.op === 'shrink') this.say({ owner: 0, shrunkTo: processed ?? -1 });
    if (request?.op === 'cluster')
      this.say({ owner: request.task.owner, clusteredTo: -1, endedAtMs: monotonicMs() });
  }

  private say(reply: RefineReply): void {
    this.emit('message', reply);
  }
}

function start() {
  const windowOpen = new Int32Array(16);
  let sequence = 7;
  const said: string[] = [];
  const shares: number[] = [];
  const filled = { share: 0 };
  const options = {
    ...{ windowOpen, sequence: () => sequence++, clusters: true, trained: () => {} },
    templateSize: () => TEMPLATE_PAGES,
    filled: () => filled.share,
    urgency: {
      add: (tid: number) => void said.push(`add ${tid}`),
      drop: (tid: number) => void said.push(`drop ${tid}`),
      update: (share: number) => void shares.push(share),
      hasten: (tid: number) => void said.push(`hasten ${tid}`),
      settle: (tid: number) => void said.push(`settle ${tid}`),
    },
  };
  const queue = new RefineQueue(options);
  const worker = new IdleWorker();
  queue.join(worker as unknown as Worker);
  const add = (owner: number, pages: number): void =>
    queue.add(owner, 1, 0, new Uint32Array(pages), new Uint32Array(pages));
  /** What the worker is given, one after the other. */
  const order = (jobs: number): string[] =>
    Array.from({ length: jobs }, () => {
      const { last } = worker;
      worker.done();
      return last;
    });
  /** Pages with places in the template, NO_TEMPLATE_PAGE for none. */
  const addAt = (owner: number, templatePages: number[]): void =>
    queue.add(owner, 1, 0, new Uint32Array(templatePages.length), Uint32Array.from(templatePages));
  return { queue, worker, add, addAt, order, windowOpen, said, shares, filled };
}

test('owners take turns, a batch each', () => {
  const { queue, add, order } = start();
  queue.open(1);
  queue.open(2);
  add(1, 3 * BATCH);
  add(2, 2 * BATCH);
  expect(order(5)).toEqual(['refine 1', 'refine 2', 'refine 1', 'refine 2', 'refine 1']);
});

test('what can not be refined before its window ends is first made smaller', () => {
  const { queue, worker, add, filled } = start();
  worker.msAPage = 10;
  const isRushed = (batches: number): boolean[] =>
    Array.from({ length: batches }, () => {
      const request = worker.given.at(-1);
      worker.done();
      return request?.op === 'refine' && request.rushed;
    });
  queue.open(1);
  add(1, 2 * BATCH);
  expect(isRushed(2)).toEqual([false, false]); // its end is not known
  queue.open(2, 60_000);
  add(2, 8 * BATCH);
  expect(isRushed(2)).toEqual([false, false]); // takes 5 s of 60
  queue.open(2, 2_200);
  // One is in hand; after it five batches take 3.2 s, four 2.6, three 1.9.
  expect(isRushed(5)).toEqual([false, true, true, false, false]);
  queue.open(3);
  filled.share = 1 / 32;
  add(3, 4 * BATCH);
  expect(isRushed(4)).toEqual([false, true, true, true]); // the first was handed out for owner 2
});

test('those whose window ends soon come first, and starve nobody', () => {
  const { queue, worker, add, order } = start();
  queue.open(9);
  add(9, BATCH); // is in hand when the others come
  queue.open(1);
  queue.open(2, 60_000);
  queue.open(3, 30_000);
  for (const owner of [1, 2, 3]) add(owner, 2 * BATCH);
  worker.done();
  expect(order(6)).toEqual(['refine 3', 'refine 2', 'refine 1', 'refine 3', 'refine 2', 'refine 1']);
});

test('nothing is handed out after the window closed, and what was left waits for the next', async () => {
  const { queue, worker, add, windowOpen } = start();
  queue.open(1);
  add(1, 3 * BATCH);
  let closed = false;
  const closing = queue.close(1).then(() => (closed = true));
  expect(windowOpen[1]).toBe(0);
  await Promise.resolve();
  expect(closed).toBe(false);
  worker.done(10);
  await closing;
  expect(worker.given).toHaveLength(1);
  expect(queue.remaining(1)).toBe(3 * BATCH - 10);
  expect(queue.times(1)).toMatchObject({ refinedAtMs: null, endedAtMs: expect.any(Number) as number });
});

test('it notes when work began, when all was refined, and when it ended', () => {
  const { queue, worker, add } = start();
  queue.open(1);
  expect(queue.times(1)).toEqual({ startedAtMs: null, refinedAtMs: null, endedAtMs: null });
  add(1, BATCH);
  worker.done();
  const { startedAtMs, refinedAtMs, endedAtMs } = queue.times(1);
  expect(startedAtMs).toBeLessThanOrEqual(refinedAtMs as number);
  expect(refinedAtMs).toBe(endedAtMs);
});

test('pages are put together when nothing is left to refine, in turn', async () => {
  const { queue, worker, add, order } = start();
  for (const owner of [1, 2]) {
    queue.open(owner);
    await queue.close(owner);
  }
  queue.open(1); // both have rested since their last window
  queue.open(2);
  expect(worker.last).toBe('cluster 1');
  add(2, BATCH);
  expect(order(3)).toEqual(['cluster 1', 'refine 2', 'cluster 2']);
  expect(worker.given).toHaveLength(3);
});

test('what was only made smaller is refined when nobody else waits, and counts as not refined', () => {
  const { queue, worker, add } = start();
  queue.open(1);
  queue.open(2);
  add(1, BATCH);
  add(2, BATCH);
  worker.done(BATCH, [3, 5]);
  expect(queue.remaining(1)).toBe(2);
  expect(queue.times(1).refinedAtMs).toBeNull();
  expect(worker.last).toBe('refine 2');
  worker.done();
  expect(worker.last).toBe('refine later 1');
  expect(worker.given.at(-1)).toMatchObject({ slots: { length: 2 } });
  worker.done(1);
  expect(queue.remaining(1)).toBe(0); // the last one is in hand again
  worker.done();
  expect(queue.times(1).refinedAtMs).not.toBeNull();
});

test('what nobody claims is looked at once, after others, and only when it has been there for a while', () => {
  const { queue, worker, add } = start();
  queue.open(1);
  add(1, BATCH);
  queue.tidy();
  expect(worker.last).toBe('refine 1');
  worker.done();
  expect(worker.last).toBe('shrink from 0');
  const first = worker.given.at(-1) as { unclaimed: { until: number } };
  queue.tidy(); // it is still at it
  expect(worker.given).toHaveLength(2);
  worker.done(12);
  expect(worker.last).toBe('shrink from 12');
  worker.done();
  queue.tidy();
  const next = worker.given.at(-1) as { unclaimed: { after: number; until: number } };
  expect(next.unclaimed.after).toBe(first.unclaimed.until);
  expect(next.unclaimed.until).toBeGreaterThan(first.unclaimed.until);
});

test('what an owner is stored by goes with each of its batches, from the window on that says so', () => {
  const { queue, worker, add } = start();
  const encodings = (): unknown[] =>
    worker.given.flatMap((request) => (request.op === 'refine' ? [[request.owner, request.encoding]] : []));
  queue.open(1, null, { delta: false, clusters: false });
  queue.open(2);
  add(1, BATCH);
  worker.done();
  add(2, BATCH);
  worker.done();
  expect(encodings()).toEqual([
    [1, { delta: false, clusters: false }],
    [2, undefined],
  ]);
  void queue.close(1);
  // In its second window pages would be put together, but for what it said.
  queue.open(1, null, { clusters: false });
  expect(worker.last).not.toBe('cluster 1');
  void queue.close(1);
  queue.open(1);
  expect(worker.last).toBe('cluster 1');
});

/** What the worker has in hand: where its pages lie in the template, in eighths; -1: nowhere. */
function placeInHand(worker: IdleWorker): number {
  const request = worker.given.at(-1);
  if (request?.op !== 'refine') return NaN;
  const places = [...request.templatePages].map((page) =>
    page === NO_TEMPLATE_PAGE ? -1 : Math.floor(page / 1000),
  );
  expect(new Set(places).size).toBe(1);
  return places[0];
}

test('of an owner the pages come first that gain most, as batches before have shown', () => {
  const { queue, worker, addAt } = start();
  const gains = new Map([
    [NO_TEMPLATE_PAGE, 10],
    [0, 30],
    [3500, 20],
    [7999, 40],
  ]);
  worker.worth = (page) => [gains.get(page) as number, 1];
  queue.open(1);
  const pages = [...gains.keys()].flatMap((page) => new Array<number>(3 * BATCH).fill(page));
  addAt(1, pages);
  const order: number[] = [];
  for (let i = 0; i < 12; i++) {
    order.push(placeInHand(worker));
    worker.done();
  }
  // Each once to learn what it gains, then the best.
  expect(order.slice(4)).toEqual([7, 7, 0, 0, 3, 3, -1, -1]);
  expect(new Set(order.slice(0, 4))).toEqual(new Set([-1, 0, 3, 7]));
  expect(worker.given).toHaveLength(12);
});

test('what gains least is not forgotten, and what it gains by now is found out', () => {
  const { queue, worker, addAt } = start();
  let poor = 1;
  worker.worth = (page) => [page === NO_TEMPLATE_PAGE ? poor : 10, 1];
  queue.open(1);
  addAt(1, new Array<number>(100 * BATCH).fill(NO_TEMPLATE_PAGE));
  addAt(1, new Array<number>(200 * BATCH).fill(5));
  const handed = (batches: number): number => {
    let count = 0;
    for (let i = 0; i < batches; i++) {
      if (placeInHand(worker) === -1) count++;
      worker.done();
    }
    return count;
  };
  // Its first batch, and one in sixteen.
  expect(handed(64)).toBeGreaterThanOrEqual(4);
  poor = 1000;
  handed(17);
  expect(handed(15)).toBeGreaterThanOrEqual(14);
});

test('in a window that is cut short more is saved than in order of arrival', () => {
  const random = testRandom('refine order');
  const worth = Array.from(
    { length: CLASSES },
    () => [500 + random.below(3500), 1 + random.below(9)] as const,
  );
  const worthOf = (page: number): readonly [number, number] =>
    worth[page === NO_TEMPLATE_PAGE ? CLASSES - 1 : Math.floor(page / 1000)];
  /** A sandbox's pages: runs of neighbours, some of them new. */
  const window = (): number[] =>
    Array.from({ length: 60 }, () => {
      const first = random.below(4) === 0 ? NO_TEMPLATE_PAGE : random.below(TEMPLATE_PAGES - BATCH);
      return Array.from({ length: BATCH }, (_, i) => (first === NO_TEMPLATE_PAGE ? first : first + i));
    }).flat();
  const { queue, worker, addAt } = start();
  worker.worth = worthOf;
  let byGain = 0;
  let byArrival = 0;
  for (let owner = 1; owner < 9; owner++) {
    const pages = window();
    const budget = pages.reduce((sum, page) => sum + worthOf(page)[1], 0) / 4;
    for (let i = 0, spent = 0; (spent += worthOf(pages[i])[1]) <= budget; i++)
      byArrival += worthOf(pages[i])[0];
    queue.open(owner);
    addAt(owner, pages);
    for (let spent = 0; spent < budget;) {
      const request = worker.given.at(-1) as RefineRequest & { op: 'refine' };
      for (const page of request.templatePages) {
        if ((spent += worthOf(page)[1]) > budget) break;
        byGain += worthOf(page)[0];
      }
      // The batch in hand is the last: the window closes, and the rest waits.
      if (spent > budget) void queue.close(owner);
      worker.done();
    }
  }
  process.stdout.write(`saved in a quarter of the time: ${(byGain / byArrival).toFixed(2)} times as much\n`);
  expect(byGain).toBeGreaterThan(byArrival);
});

test('a worker that has a page in hand when the window closes is given precedence until it has finished', async () => {
  const { queue, worker, add, said, shares, filled } = start();
  worker.emit('message', { thread: 77 } satisfies RefineReply);
  queue.open(1);
  queue.open(2);
  add(1, BATCH);
  add(2, BATCH);
  await queue.close(2); // nothing of it is in hand
  expect(said).toEqual(['add 77']);
  const closing = queue.close(1);
  expect(said).toEqual(['add 77', 'hasten 77']);
  filled.share = 0.2;
  worker.done(3);
  await closing;
  expect(said).toEqual(['add 77', 'hasten 77', 'settle 77']);
  expect(shares.at(-1)).toBe(0.2);
  queue.leave(worker as unknown as Worker);
  expect(said.at(-1)).toBe('drop 77');
});

test('a worker that a pack is waited for from is given precedence until it has let it go', async () => {
  const { queue, worker, add, said } = start();
  worker.emit('message', { thread: 77 } satisfies RefineReply);
  queue.open(1);
  add(1, BATCH);
  const removed = queue.removePack(3);
  worker.emit('message', {
    ...{ owner: 1, processed: BATCH, deferred: [], trains: false, savedBytes: 1, cpuMs: 1 },
    endedAtMs: monotonicMs(),
  } satisfies RefineReply);
  expect(said).toEqual(['add 77', 'hasten 77']);
  worker.emit('message', { released: 3 } satisfies RefineReply);
  await removed;
  expect(said).toEqual(['add 77', 'hasten 77', 'settle 77']);
});
