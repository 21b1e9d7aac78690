import type { Worker } from 'node:worker_threads';
import type { Unclaimed } from '../store/shrinker.js';
import type { Trained } from '../store/training.js';
import type { RefineReply, RefineRequest } from './threads.js';

/** Pages a worker is given at a time: some milliseconds of work. */
const BATCH_PAGES = 64;

/** Pages that wait, in order. */
class Backlog {
  private readonly slots: number[] = [];
  private readonly templatePages: number[] = [];
  /** The first that is not handed out. */
  private next = 0;

  get length(): number {
    return this.slots.length - this.next;
  }

  add(slots: ArrayLike<number>, templatePages: ArrayLike<number>): void {
    for (let i = 0; i < slots.length; i++) {
      this.slots.push(slots[i]);
      this.templatePages.push(templatePages[i]);
    }
  }

  /** Hands out the next `limit` at most. */
  take(limit: number): Pages {
    const end = Math.min(this.next + limit, this.slots.length);
    const pages = {
      slots: Uint32Array.from(this.slots.slice(this.next, end)),
      templatePages: Uint32Array.from(this.templatePages.slice(this.next, end)),
    };
    this.next = end;
    if (this.length === 0) this.slots.length = this.templatePages.length = this.next = 0;
    return pages;
  }
}

interface Pages {
  slots: Uint32Array;
  templatePages: Uint32Array;
}

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
  /** Batches of this owner at workers. */
  working: number;
  /** Waits for `working` to reach 0. */
  idle: (() => void)[];
}

/** A batch to refine; none while pages are put together. */
interface Job extends Pages {
  owner: number;
  deferred: boolean;
}
const NONE = new Uint32Array();
/** Sequences run modulo 2^32: half of them are earlier than one. */
const HALF = 2 ** 31 - 1;

export interface RefineQueueOptions {
  /** See Volatile. */
  windowOpen: Int32Array;
  /** The store's sequence now. */
  sequence(): number;
  /** Put pages together when nothing else is to be done. */
  clusters: boolean;
  /** Is called with every dictionary that a worker has made. */
  trained(trained: Trained): void;
}

/** Hands claimed pages of owners with open windows to the refine workers, one batch an owner in turn. */
export class RefineQueue {
  private readonly owners = new Map<number, OwnerQueue>();
  /** What workers have in hand. */
  private readonly busy = new Map<Worker, Job>();
  private readonly releases = new Map<number, () => void>();
  /** Owner ids in the order of their turns. */
  private turns: number[] = [];

  /** Which pages are made smaller if nobody has claimed them, and from which slot on (-1: done, or being done). */
  private unclaimed: Unclaimed;
  private shrinkFrom = -1;
  /** The store's sequence at the last {@link tidy}. */
  private tidied: number;

  private readonly workers = new Set<Worker>();
  /** Those that make a dictionary. */
  private readonly training = new Set<Worker>();

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
    this.training.delete(worker);
    for (const released of this.releases.values()) released();
    const job = this.busy.get(worker);
    if (job === undefined) return;
    this.take(worker, { owner: job.owner, processed: BATCH_PAGES, deferred: [], trains: false });
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
    queue.fresh.add(slots, templatePages);
    this.dispatch();
  }

  open(owner: number): void {
    const queue = this.queue(owner);
    queue.open = true;
    // What was not written since the last window opened has outlived a tool phase.
    queue.rested = queue.opened;
    queue.opened = this.options.sequence();
    queue.clusterFrom = this.options.clusters && queue.rested !== null ? 0 : -1;
    Atomics.store(this.options.windowOpen, owner, 1);
    this.dispatch();
  }

  /** Resolves when no worker touches the owner's pages any more. */
  close(owner: number): Promise<void> {
    Atomics.store(this.options.windowOpen, owner, 0);
    const queue = this.queue(owner);
    queue.open = false;
    if (queue.working === 0) return Promise.resolve();
    return new Promise((resolve) => queue.idle.push(resolve));
  }

  async forget(owner: number): Promise<void> {
    await this.close(owner);
    this.owners.delete(owner);
    this.turns = this.turns.filter((turn) => turn !== owner);
  }

  /** Every now and then: pages that came before the last time, and that nobody has claimed since, are made smaller. */
  tidy(): void {
    if (this.shrinkFrom >= 0) return;
    this.unclaimed = { after: this.unclaimed.until, until: this.tidied };
    this.tidied = this.options.sequence();
    this.shrinkFrom = 0;
    this.dispatch();
  }

  /** Claimed pages not refined yet. */
  remaining(owner: number): number {
    const queue = this.queue(owner);
    return queue.fresh.length + queue.deferred.length;
  }

  addPack(request: RefineRequest & { op: 'addPack' }): void {
    for (const worker of this.workers) worker.postMessage(request);
  }

  /** Resolves when no worker knows the pack any more. */
  async removePack(pack: number): Promise<void> {
    let left = this.workers.size;
    if (left === 0) return;
    await new Promise<void>((resolve) => {
      this.releases.set(pack, () => --left === 0 && resolve());
      for (const worker of this.workers)
        worker.postMessage({ op: 'removePack', pack } satisfies RefineRequest);
    });
    this.releases.delete(pack);
  }

  private take(worker: Worker, reply: RefineReply): void {
    if ('released' in reply) return void this.releases.get(reply.released)?.();
    if ('trained' in reply) {
      this.training.delete(worker);
      if (reply.trained !== null) this.options.trained(reply.trained);
      return this.dispatch();
    }
    const job = this.busy.get(worker)!;
    this.busy.delete(worker);
    if ('shrunkTo' in reply) {
      this.shrinkFrom = reply.shrunkTo;
      return this.dispatch();
    }
    const queue = this.owners.get(reply.owner);
    if ('clusteredTo' in reply) {
      if (queue !== undefined && queue.open) queue.clusterFrom = reply.clusteredTo;
      this.finish(queue);
      return this.dispatch();
    }
    if (reply.trains) this.training.add(worker);
    if (queue !== undefined) {
      // What the window's end left undone waits for the next one.
      const { slots, templatePages } = job;
      const rest = job.deferred ? queue.deferred : queue.fresh;
      rest.add(slots.subarray(reply.processed), templatePages.subarray(reply.processed));
      const of = (pages: Uint32Array): number[] => reply.deferred.map((index) => pages[index]);
      queue.deferred.add(of(slots), of(templatePages));
      this.finish(queue);
    }
    this.dispatch();
  }

  private finish(queue: OwnerQueue | undefined): void {
    if (queue === undefined || --queue.working > 0) return;
    for (const resolve of queue.idle.splice(0)) resolve();
  }

  private dispatch(): void {
    for (const worker of this.workers) {
      if (this.busy.has(worker) || this.training.has(worker)) continue;
      const given =
        this.refine(worker, 'fresh') ||
        this.refine(worker, 'deferred') ||
        this.shrink(worker) ||
        this.cluster(worker);
      if (!given) return;
    }
  }

  /** Gives the worker a batch of the owner whose turn it is. False: none of that kind waits. */
  private refine(worker: Worker, kind: 'fresh' | 'deferred'): boolean {
    const owner = this.nextOwner(kind);
    if (owner === undefined) return false;
    const queue = this.queue(owner);
    const job = { owner, deferred: kind === 'deferred', ...queue[kind].take(BATCH_PAGES) };
    this.busy.set(worker, job);
    queue.working++;
    const { domain, pack } = queue;
    worker.postMessage({ op: 'refine', domain, pack, ...job } satisfies RefineRequest);
    return true;
  }

  private shrink(worker: Worker): boolean {
    const { unclaimed, shrinkFrom: from } = this;
    if (from < 0) return false;
    this.shrinkFrom = -1;
    this.busy.set(worker, { owner: 0, slots: NONE, templatePages: NONE, deferred: false });
    worker.postMessage({ op: 'shrink', unclaimed, from } satisfies RefineRequest);
    return true;
  }

  /** Nothing waits to be refined: a worker puts pages together, a piece at a time. False: there is nothing to do. */
  private cluster(worker: Worker): boolean {
    for (const owner of this.turns) {
      const queue = this.queue(owner);
      if (!queue.open || queue.clusterFrom < 0 || queue.rested === null) continue;
      const { domain, rested: before, clusterFrom: from } = queue;
      queue.clusterFrom = -1;
      queue.working++;
      this.busy.set(worker, { owner, slots: NONE, templatePages: NONE, deferred: false });
      const request: RefineRequest = { op: 'cluster', task: { owner, domain, before }, from };
      worker.postMessage(request);
      return true;
    }
    return false;
  }

  private nextOwner(kind: 'fresh' | 'deferred'): number | undefined {
    const index = this.turns.findIndex((owner) => {
      const queue = this.owners.get(owner)!;
      return queue.open && queue[kind].length > 0;
    });
    if (index < 0) return undefined;
    const [owner] = this.turns.splice(index, 1);
    this.turns.push(owner);
    return owner;
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
        working: 0,
        idle: [],
      };
      this.owners.set(owner, queue);
      this.turns.push(owner);
    }
    return queue;
  }
}
