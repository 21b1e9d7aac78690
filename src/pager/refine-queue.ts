import type { Worker } from 'node:worker_threads';
import type { Trained } from '../store/training.js';
import type { RefineReply, RefineRequest } from './threads.js';

/** Pages a worker is given at a time: some milliseconds of work. */
const BATCH_PAGES = 64;

interface OwnerQueue {
  domain: number;
  pack: number;
  open: boolean;
  /** Claimed pages in order; `next` is the first not handed out. */
  slots: number[];
  templatePages: number[];
  next: number;
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
interface Job {
  owner: number;
  slots: Uint32Array;
  templatePages: Uint32Array;
}
const NONE = new Uint32Array();

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

  private readonly workers = new Set<Worker>();
  /** Those that make a dictionary. */
  private readonly training = new Set<Worker>();

  constructor(private readonly options: RefineQueueOptions) {}

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
    if (job !== undefined) this.take(worker, { owner: job.owner, processed: BATCH_PAGES, trains: false });
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
    for (let i = 0; i < slots.length; i++) {
      queue.slots.push(slots[i]);
      queue.templatePages.push(templatePages[i]);
    }
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

  /** Claimed pages not refined yet. */
  remaining(owner: number): number {
    const queue = this.queue(owner);
    return queue.slots.length - queue.next;
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
    const queue = this.owners.get(reply.owner);
    if ('clusteredTo' in reply) {
      if (queue !== undefined && queue.open) queue.clusterFrom = reply.clusteredTo;
      this.finish(queue);
      return this.dispatch();
    }
    if (reply.trains) this.training.add(worker);
    if (queue !== undefined) {
      // What the window's end left undone waits for the next one.
      queue.slots.push(...job.slots.subarray(reply.processed));
      queue.templatePages.push(...job.templatePages.subarray(reply.processed));
      this.finish(queue);
      if (queue.next === queue.slots.length) queue.slots.length = queue.templatePages.length = queue.next = 0;
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
      const owner = this.nextOwner();
      if (owner === undefined) {
        if (!this.cluster(worker)) return;
        continue;
      }
      const queue = this.queue(owner);
      const end = Math.min(queue.next + BATCH_PAGES, queue.slots.length);
      const job = {
        owner,
        slots: Uint32Array.from(queue.slots.slice(queue.next, end)),
        templatePages: Uint32Array.from(queue.templatePages.slice(queue.next, end)),
      };
      this.busy.set(worker, job);
      queue.working++;
      const { domain, pack } = queue;
      worker.postMessage({ op: 'refine', domain, pack, ...job } satisfies RefineRequest);
      queue.next = end;
    }
  }

  /** Nothing waits to be refined: a worker puts pages together, a piece at a time. False: there is nothing to do. */
  private cluster(worker: Worker): boolean {
    for (const owner of this.turns) {
      const queue = this.queue(owner);
      if (!queue.open || queue.clusterFrom < 0 || queue.rested === null) continue;
      const { domain, rested: before, clusterFrom: from } = queue;
      queue.clusterFrom = -1;
      queue.working++;
      this.busy.set(worker, { owner, slots: NONE, templatePages: NONE });
      const request: RefineRequest = { op: 'cluster', task: { owner, domain, before }, from };
      worker.postMessage(request);
      return true;
    }
    return false;
  }

  private nextOwner(): number | undefined {
    const index = this.turns.findIndex((owner) => {
      const queue = this.owners.get(owner)!;
      return queue.open && queue.next < queue.slots.length;
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
        slots: [],
        templatePages: [],
        next: 0,
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
