import type { Worker } from 'node:worker_threads';
import { monotonicMs } from '../../schedule/clock.js';
import { FairQueue } from '../../schedule/fair-queue.js';
import type { OwnerEncoding } from '../../store/encoding.js';
import type { Unclaimed } from '../../store/shrinker.js';
import type { Trained } from '../../store/training.js';
import { Backlog, NO_PAGES, type Pages } from './backlog.js';
import { Gains } from './gains.js';
import { Pace } from './pace.js';
import type { RefineTimes } from '../protocol.js';
import type { RefineReply, RefineRequest } from '../threads.js';
import type { Urgency } from './urgency.js';

/** Pages a worker is given at a time: some milliseconds of work. */
const BATCH_PAGES = 64;
/** Share of staging from which pages are first only made smaller: they come faster than they can be refined. */
const RUSH = 1 / 32;

interface OwnerQueue {
  domain: number;
  pack: number;
  open: boolean;
  /** Claimed pages; those that for want of time were only made smaller wait until no other does. */
  fresh: Backlog;
  deferred: Backlog;
  /** The store's sequence when its last window opened, and its last but one; null before there was one. */
  opened: number | null;
  rested: number | null;
  /** Where to go on putting pages that rest together; -1: done in this window, or being done. */
  clusterFrom: number;
  /** When its window will probably end, on the clock of monotonicMs. */
  deadline: number;
  times: RefineTimes;
  /** How its pages are stored; undefined: as all are. */
  encoding: OwnerEncoding | undefined;
  /** Batches of this owner at workers. */
  working: number;
  /** Waits for `working` to reach 0. */
  idle: (() => void)[];
}

/** A batch to refine; none while pages are put together. */
interface Job extends Pages {
  owner: number;
  /** Template, and class of its pages, see Gains. */
  pack: number;
  kind: number;
  deferred: boolean;
  rushed: boolean;
  /** When a worker got it, on the clock of monotonicMs. */
  since: number;
}
/** Owner of what nobody has claimed. */
const NOBODY = 0;
const noPagesOf = (owner: number): Job => ({
  ...{ owner, pack: 0, kind: 0, deferred: false, rushed: false, since: 0 },
  ...NO_PAGES,
});
/** Sequences run modulo 2^32: half of them are earlier than one. */
const HALF = 2 ** 31 - 1;

export interface RefineQueueOptions {
  /** See Volatile. */
  windowOpen: Int32Array;
  /** The store's sequence now. */
  sequence(): number;
  /** Put pages together when nothing else is to be done. */
  clusters: boolean;
  /** How many addresses a template has, in pages. */
  templateSize(pack: number): number;
  /** Staged bytes over the bytes of staging there are. */
  filled(): number;
  urgency: Pick<Urgency, 'add' | 'drop' | 'update' | 'hasten' | 'settle'>;
  /** Is called with every dictionary that a worker has made. */
  trained(trained: Trained): void;
}

const NO_TIMES: RefineTimes = { startedAtMs: null, refinedAtMs: null, endedAtMs: null };

/**
 * Hands claimed pages of owners with open windows to the refine workers. Owners take turns as {@link FairQueue} has it, a
 * batch each in a round: those whose window ends soon come first, and none waits for more than two batches of each other.
 * What will not be refined before its window ends, or comes too fast, is only made smaller at first ({@link Pace}); what was is refined
 * in the same way when nothing else waits, and then pages are put together, a pass in a round. Of an owner's pages those come
 * first of which most is saved for the processor time ({@link Gains}).
 */
export class RefineQueue {
  private readonly owners = new Map<number, OwnerQueue>();
  private readonly gains = new Gains();
  private readonly pace = new Pace();
  private readonly refining = new FairQueue<number>(BATCH_PAGES, monotonicMs);
  private readonly deferring = new FairQueue<number>(BATCH_PAGES, monotonicMs);
  private readonly clustering = new FairQueue<number>(1, monotonicMs);
  /** What workers have in hand. */
  private readonly busy = new Map<Worker, Job>();
  private readonly releases = new Map<number, () => void>();
  private readonly workers = new Set<Worker>();
  /** Their threads, once known. */
  private readonly tids = new Map<Worker, number>();
  /** Those that make a dictionary. */
  private readonly training = new Set<Worker>();
  /** Which pages are made smaller if nobody has claimed them, and from which slot on (-1: done, or being done). */
  private unclaimed: Unclaimed;
  private shrinkFrom = -1;
  /** The store's sequence at the last {@link tidy}. */
  private tidied: number;

  constructor(private readonly options: RefineQueueOptions) {
    this.tidied = options.sequence();
    // All that a pager before this one has left.
    this.unclaimed = { after: 0, until: this.tidied - HALF };
  }

  join(worker: Worker): void {
    this.workers.add(worker);
    worker.on('message', (reply: RefineReply) => this.take(worker, reply));
    this.dispatch();
  }

  /** A worker died; what it had in hand stays as it was written. */
  leave(worker: Worker): void {
    this.workers.delete(worker);
    this.options.urgency.drop(this.tids.get(worker) ?? 0);
    this.tids.delete(worker);
    this.training.delete(worker);
    for (const released of this.releases.values()) released();
    const job = this.busy.get(worker);
    if (job === undefined) return;
    const done = { processed: BATCH_PAGES, deferred: [], trains: false, savedBytes: 0, cpuMs: 0 };
    this.take(worker, { owner: job.owner, ...done, endedAtMs: monotonicMs() });
  }

  add(
    owner: number,
    domain: number,
    pack: number,
    slots: ArrayLike<number>,
    templatePages: ArrayLike<number>,
  ): void {
    const queue = this.queue(owner);
    queue.domain = domain;
    queue.pack = pack;
    queue.fresh.add(slots, templatePages, this.options.templateSize(pack));
    this.enlist(owner, queue);
    this.dispatch();
  }

  /** `endsInMs`: when the window will probably end; null: not known. */
  open(owner: number, endsInMs: number | null = null, encoding?: OwnerEncoding): void {
    const queue = this.queue(owner);
    queue.open = true;
    queue.deadline = endsInMs === null ? Infinity : monotonicMs() + endsInMs;
    queue.times = { ...NO_TIMES };
    queue.encoding = encoding;
    const clusters = encoding?.clusters ?? this.options.clusters;
    // What was not written since the last window opened has outlived a tool phase.
    queue.rested = queue.opened;
    queue.opened = this.options.sequence();
    queue.clusterFrom = clusters && queue.rested !== null ? 0 : -1;
    Atomics.store(this.options.windowOpen, owner, 1);
    this.enlist(owner, queue);
    this.dispatch();
  }

  /** Resolves when no worker touches the owner's pages any more. */
  close(owner: number): Promise<void> {
    Atomics.store(this.options.windowOpen, owner, 0);
    const queue = this.queue(owner);
    queue.open = false;
    for (const flows of [this.refining, this.deferring, this.clustering]) flows.leave(owner);
    if (queue.working === 0) return Promise.resolve();
    for (const [worker, job] of this.busy) if (job.owner === owner) this.hasten(worker);
    return new Promise((resolve) => queue.idle.push(resolve));
  }

  async forget(owner: number): Promise<void> {
    await this.close(owner);
    this.owners.delete(owner);
  }

  /** Every now and then: pages that came before the last time, and that nobody has claimed since, are made smaller. */
  tidy(): void {
    const inHand = [...this.busy.values()].some(({ owner }) => owner === NOBODY);
    if (inHand || this.shrinkFrom >= 0) return;
    this.unclaimed = { after: this.unclaimed.until, until: this.tidied };
    this.tidied = this.options.sequence();
    // Nothing came meanwhile: the whole table would be looked through for nothing.
    if (this.unclaimed.after === this.unclaimed.until) return;
    this.shrinkFrom = 0;
    this.dispatch();
  }

  /** Claimed pages not refined yet. */
  remaining(owner: number): number {
    const { fresh, deferred } = this.queue(owner);
    return fresh.length + deferred.length;
  }

  /** When work for the owner's window began, was done, ended. */
  times(owner: number): RefineTimes {
    return this.queue(owner).times;
  }

  addPack(request: RefineRequest & { op: 'addPack' }): void {
    for (const worker of this.workers) worker.postMessage(request);
  }

  /** Resolves when no worker knows the pack any more. */
  async removePack(pack: number): Promise<void> {
    this.gains.forget(pack);
    let left = this.workers.size;
    if (left === 0) return;
    await new Promise<void>((resolve) => {
      this.releases.set(pack, () => --left === 0 && resolve());
      for (const worker of this.workers) {
        worker.postMessage({ op: 'removePack', pack } satisfies RefineRequest);
        // Somebody waits for it, and idle work may never get a processor.
        this.hasten(worker);
      }
    });
    this.releases.delete(pack);
  }

  private take(worker: Worker, reply: RefineReply): void {
    if ('thread' in reply) {
      this.tids.set(worker, reply.thread);
      return this.options.urgency.add(reply.thread);
    }
    if ('released' in reply) {
      this.settle(worker);
      return this.releases.get(reply.released)?.();
    }
    if ('trained' in reply) {
      this.training.delete(worker);
      if (reply.trained !== null) this.options.trained(reply.trained);
      return this.dispatch();
    }
    const job = this.busy.get(worker)!;
    this.busy.delete(worker);
    if (this.releases.size === 0) this.settle(worker);
    if ('shrunkTo' in reply) {
      this.shrinkFrom = reply.shrunkTo;
      return this.dispatch();
    }
    const queue = this.owners.get(reply.owner);
    if ('clusteredTo' in reply) {
      if (queue !== undefined && queue.open) queue.clusterFrom = reply.clusteredTo;
      if (queue !== undefined) this.finish(reply, queue);
      return this.dispatch();
    }
    if (reply.trains) this.training.add(worker);
    if (queue !== undefined) {
      // What the window's end left undone waits for the next one.
      const { slots, templatePages, pack, kind, rushed, since } = job;
      const size = this.options.templateSize(pack);
      const rest = job.deferred ? queue.deferred : queue.fresh;
      rest.add(slots.subarray(reply.processed), templatePages.subarray(reply.processed), size);
      const of = (pages: Uint32Array): number[] => reply.deferred.map((index) => pages[index]);
      queue.deferred.add(of(slots), of(templatePages), size);
      this.gains.learn(pack, job.deferred, kind, reply.savedBytes, reply.cpuMs);
      if (!job.deferred) this.pace.learn(reply.processed, reply.endedAtMs - since, rushed);
      this.finish(reply, queue);
      const done = queue.fresh.length + queue.deferred.length === 0;
      if (done && queue.working === 0) queue.times.refinedAtMs = queue.times.endedAtMs;
    }
    this.dispatch();
  }

  private finish({ owner, endedAtMs }: { owner: number; endedAtMs: number }, queue: OwnerQueue): void {
    queue.working--;
    queue.times.endedAtMs = Math.max(queue.times.endedAtMs ?? 0, endedAtMs);
    this.enlist(owner, queue);
    if (queue.working === 0) for (const resolve of queue.idle.splice(0)) resolve();
  }

  /** It waits for a worker when there is something to do for it. */
  private enlist(owner: number, queue: OwnerQueue): void {
    if (!queue.open) return;
    if (queue.fresh.length > 0) this.refining.join(owner, queue.deadline);
    if (queue.deferred.length > 0) this.deferring.join(owner, queue.deadline);
    if (queue.clusterFrom >= 0) this.clustering.join(owner, queue.deadline);
    else this.clustering.leave(owner);
  }

  private hasten(worker: Worker): void {
    const tid = this.tids.get(worker);
    if (tid !== undefined) this.options.urgency.hasten(tid);
  }

  private settle(worker: Worker): void {
    this.options.urgency.settle(this.tids.get(worker) ?? 0);
  }

  private dispatch(): void {
    this.options.urgency.update(this.options.filled());
    for (const worker of this.workers) {
      if (this.busy.has(worker) || this.training.has(worker)) continue;
      const given =
        this.refine(worker, this.refining, 'fresh') ||
        this.refine(worker, this.deferring, 'deferred') ||
        this.shrink(worker) ||
        this.cluster(worker);
      if (!given) return;
    }
  }

  /** Gives a worker the next batch. False: there is none. */
  private refine(worker: Worker, flows: FairQueue<number>, kind: 'fresh' | 'deferred'): boolean {
    const owner = flows.next();
    if (owner === undefined) return false;
    const queue = this.queue(owner);
    const { domain, pack, encoding } = queue;
    const deferred = kind === 'deferred';
    const gain = (of: number): number => this.gains.expected(pack, deferred, of);
    const rushed = !deferred && (this.options.filled() >= RUSH || this.isLate(queue));
    const since = monotonicMs();
    const job = { owner, pack, deferred, rushed, since, ...queue[kind].take(BATCH_PAGES, gain) };
    flows.charge(owner, job.slots.length);
    this.enlist(owner, queue);
    queue.times.startedAtMs ??= since;
    this.employ(worker, job, queue);
    const { slots, templatePages } = job;
    const what = { owner, domain, pack, encoding, slots, templatePages, deferred, rushed };
    worker.postMessage({ op: 'refine', ...what } satisfies RefineRequest);
    return true;
  }

  /** Will the owner's window probably end before all its pages are refined? The others' take their turns. */
  private isLate({ deadline, fresh }: OwnerQueue): boolean {
    const left = deadline - monotonicMs();
    if (left <= 0 || left === Infinity) return false;
    let pages = 0;
    for (const other of this.owners.values())
      if (other.open) pages += Math.min(other.fresh.length, fresh.length);
    return this.pace.timeFor(pages, this.workers.size) > left;
  }

  private shrink(worker: Worker): boolean {
    const { unclaimed, shrinkFrom: from } = this;
    if (from < 0) return false;
    this.shrinkFrom = -1;
    this.busy.set(worker, noPagesOf(NOBODY));
    worker.postMessage({ op: 'shrink', unclaimed, from } satisfies RefineRequest);
    return true;
  }

  /** Nothing waits to be refined: a worker puts pages together, a piece at a time. False: there is nothing to do. */
  private cluster(worker: Worker): boolean {
    const owner = this.clustering.next();
    if (owner === undefined) return false;
    const queue = this.queue(owner);
    const { domain, clusterFrom: from } = queue;
    // Set with `rested`, and only then.
    const before = queue.rested as number;
    queue.clusterFrom = -1;
    this.clustering.charge(owner, 1);
    this.employ(worker, noPagesOf(owner), queue);
    worker.postMessage({ op: 'cluster', task: { owner, domain, before }, from } satisfies RefineRequest);
    return true;
  }

  private employ(worker: Worker, job: Job, queue: OwnerQueue): void {
    this.busy.set(worker, job);
    queue.working++;
  }

  private queue(owner: number): OwnerQueue {
    let queue = this.owners.get(owner);
    if (queue === undefined) {
      queue = {
        domain: 0,
        pack: 0,
        open: false,
        fresh: new Backlog(),
        deferred: new Backlog(),
        ...{ opened: null, rested: null, clusterFrom: -1 },
        ...{ deadline: Infinity, times: { ...NO_TIMES }, encoding: undefined },
        working: 0,
        idle: [],
      };
      this.owners.set(owner, queue);
    }
    return queue;
  }
}
