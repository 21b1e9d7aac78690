import { EventEmitter } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { RefineQueue } from '../src/pager/refine/refine-queue.js';
import { monotonicMs } from '../src/schedule/clock.js';
import type { RefineReply, RefineRequest } from '../src/pager/threads.js';

const BATCH = 64;

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

  /** Says that it has done what it was given last, or the first `processed` pages of it, some of them only made smaller. */
  done(processed?: number, deferred: number[] = []): void {
    const request = this.given.at(-1);
    if (request?.op === 'refine')
      this.say({
        owner: request.owner,
        processed: processed ?? request.slots.length,
        deferred,
        trains: false,
        endedAtMs: monotonicMs(),
      });
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
  const options = { windowOpen, sequence: () => sequence++, clusters: true, trained: () => {} };
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
  return { queue, worker, add, order, windowOpen };
}

test('owners take turns, a batch each', () => {
  const { queue, add, order } = start();
  queue.open(1);
  queue.open(2);
  add(1, 3 * BATCH);
  add(2, 2 * BATCH);
  expect(order(5)).toEqual(['refine 1', 'refine 2', 'refine 1', 'refine 2', 'refine 1']);
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
