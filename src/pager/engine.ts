import { Worker } from 'node:worker_threads';
import { AgentZipError } from '../errors.js';
import { eventfd } from '../native/files.js';
import { memfdCreate } from '../native/memory.js';
import { PAGE } from '../native/libc.js';
import { SEGMENT } from '../store/layout.js';
import { mapPack, unmapPack, type PackMapping } from '../store/packs.js';
import { formatStore, Tables } from '../store/tables.js';
import { createVolatile, memoryBytes, Volatile } from '../store/volatile.js';
import { storeMemory } from './accounting.js';
import { Attention } from './attention.js';
import type { PagerOptions } from './options.js';
import type { StoreMemory } from './protocol.js';
import { RefineQueue } from './refine-queue.js';
import type {
  DataLoopInput,
  DataLoopNotice,
  DataLoopReply,
  DataLoopRequest,
  RefineWorkerInput,
} from './threads.js';

/** A worker that dies this often is not started again. */
const MAX_DEATHS = 10;

/** Omit that keeps the variants of a union apart. */
type Request = DataLoopRequest extends infer R ? (R extends unknown ? Omit<R, 'id'> : never) : never;

/** The store with its threads, as the control thread holds it. */
export class Engine {
  readonly tables: Tables;
  readonly shared: Volatile;
  readonly queue: RefineQueue;
  readonly packs = new Map<number, PackMapping>();
  private readonly loop: Worker;
  private readonly waiting = new Map<number, (reply: DataLoopReply) => void>();
  private readonly flag = new SharedArrayBuffer(4);
  private readonly wakeFd = eventfd();
  private readonly attention = new Attention(this.flag, this.wakeFd);
  private readonly storeFd = memfdCreate('agentzip-store');
  private readonly volatileFd: number;
  private nextId = 1;
  /** Resolves when the data loop has ended because its device is gone; rejects when it died. */
  readonly ended: Promise<void>;

  private constructor(options: PagerOptions, fuseFd: number, ready: () => void) {
    const geometry = {
      slots: Math.floor(options.deviceBytes / PAGE),
      arenaBytes: Math.floor(options.storeBytes / SEGMENT) * SEGMENT,
    };
    const store = formatStore(this.storeFd, geometry);
    this.tables = new Tables(store);
    const volatile = createVolatile(geometry, options.workers);
    this.volatileFd = volatile.fd;
    this.shared = new Volatile(volatile, this.tables);
    const common = { store, volatile, wakeFd: this.wakeFd, attention: this.flag };
    const input: DataLoopInput = {
      ...common,
      storeFd: this.storeFd,
      fuseFd,
      stagingBytes: options.stagingBytes,
    };
    this.loop = new Worker(new URL('./data-loop.js', import.meta.url), { workerData: input });
    this.ended = this.follow(ready);
    this.queue = new RefineQueue(this.shared.windowOpen);
    for (let worker = 0; worker < options.workers; worker++) {
      const { encoding, stagingBytes } = options;
      this.employ({ ...common, worker, encoding, stagingBytes, packs: [] });
    }
  }

  /** Resolves when the data loop answers requests of `fuseFd`. */
  static start(options: PagerOptions, fuseFd: number): Promise<Engine> {
    return new Promise((resolve, reject) => {
      const engine: Engine = new Engine(options, fuseFd, () => resolve(engine));
      engine.ended.catch(reject);
    });
  }

  /** Bytes of memory of the store: arena, tables and indexes, as the kernel counts them. */
  get poolBytes(): number {
    return memoryBytes(this.storeFd) + memoryBytes(this.volatileFd);
  }

  storeMemory(usedSlots: number): StoreMemory {
    return storeMemory(this.tables, this.shared, usedSlots, {
      store: memoryBytes(this.storeFd),
      index: memoryBytes(this.volatileFd),
    });
  }

  request(request: Request): Promise<DataLoopReply> {
    const id = this.nextId++;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.loop.postMessage({ ...request, id });
      this.attention.ring();
    });
  }

  /** Number of the pack; the same for the same path. */
  async loadPack(path: string): Promise<PackMapping> {
    const known = this.packs.get(this.tables.packs.find(path));
    if (known !== undefined) return known;
    const pack = this.tables.packs.add(path);
    if (pack === 0) throw new AgentZipError('AZ_PACK_INVALID', { path, reason: 'too many packs are loaded' });
    try {
      const mapping = mapPack(pack, path);
      this.packs.set(pack, mapping);
      await this.request({ op: 'addPack', mapping });
      this.queue.addPack({ op: 'addPack', mapping });
      return mapping;
    } catch (error) {
      this.tables.packs.remove(pack);
      throw error;
    }
  }

  /** False when pages still rest on it. */
  async unloadPack(pack: number): Promise<boolean> {
    const mapping = this.packs.get(pack);
    if (mapping === undefined) return true;
    await this.queue.removePack(pack);
    await this.request({ op: 'flush' });
    const { removed } = await this.request({ op: 'removePack', pack });
    if (removed !== true) {
      this.queue.addPack({ op: 'addPack', mapping });
      return false;
    }
    this.packs.delete(pack);
    this.tables.packs.remove(pack);
    unmapPack(mapping);
    return true;
  }

  /** Starts a refine worker, and another when it dies: pages can wait, so its end harms nobody. */
  private employ(input: RefineWorkerInput, deaths = 0): void {
    const workerData = { ...input, packs: [...this.packs.values()] };
    const worker = new Worker(new URL('./refine-worker.js', import.meta.url), { workerData });
    worker.on('error', (error: Error) => {
      process.stderr.write(`agentzip-pager: refine worker ${input.worker}: ${error.stack}\n`);
      this.queue.leave(worker);
      if (deaths < MAX_DEATHS) this.employ(input, deaths + 1);
    });
    this.queue.join(worker);
  }

  private follow(ready: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.loop.on('error', reject);
      this.loop.on('message', (message: DataLoopReply | DataLoopNotice) => {
        if ('started' in message) return ready();
        if ('ended' in message) return resolve();
        this.waiting.get(message.id)?.(message);
        this.waiting.delete(message.id);
      });
    });
  }
}
