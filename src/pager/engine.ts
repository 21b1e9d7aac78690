import { Worker } from 'node:worker_threads';
import { AgentZipError } from '../errors.js';
import { eventfd } from '../native/files.js';
import { PAGE } from '../native/libc.js';
import { SEGMENT, Super } from '../store/layout.js';
import { mapPack, unmapPack, type PackMapping } from '../store/packs.js';
import { createMemoryFile } from '../store/memory-file.js';
import { formatStore, openStore, Tables, type StoreMapping } from '../store/tables.js';
import { Counter, createVolatile, memoryBytes, Volatile } from '../store/volatile.js';
import { storeMemory } from './accounting.js';
import { Attention } from './requests/attention.js';
import type { ChannelPlan } from './requests/channel.js';
import type { PagerOptions } from './options.js';
import type { StoreMemory } from './protocol.js';
import { createSlotLog } from './requests/slot-log.js';
import { RefineQueue } from './refine/refine-queue.js';
import { Urgency } from './refine/urgency.js';
import type {
  DataLoopInput,
  DataLoopNotice,
  DataLoopReply,
  DataLoopRequest,
  RefineWorkerInput,
  Started,
} from './threads.js';

/** A worker that dies this often is not started again. */
const MAX_DEATHS = 10;

/** Omit that keeps the variants of a union apart. */
type Request = DataLoopRequest extends infer R ? (R extends unknown ? Omit<R, 'id'> : never) : never;

/** The store with its threads, as the control thread holds it. */
export class Engine {
  /** Names are current in it from the start or the takeover on. */
  tables: Tables;
  readonly shared: Volatile;
  readonly queue: RefineQueue;
  readonly urgency = new Urgency();
  readonly packs = new Map<number, PackMapping>();
  /** Told of every pack that is loaded (with its path) or let go (null). */
  packChanged: (pack: number, path: string | null) => void = () => {};
  /** Resolves when the loop of a standby waits for the pager's end. */
  readonly parked: Promise<void>;
  /** Resolves when the data loop answers requests; for a standby that is the takeover. */
  readonly started: Promise<Started>;
  /** Resolves when the data loop has ended because its device is gone; rejects when it died. */
  readonly ended: Promise<void>;
  private readonly loop: Worker;
  private readonly waiting = new Map<number, (reply: DataLoopReply) => void>();
  private readonly flag = new SharedArrayBuffer(4);
  private readonly wakeFd = eventfd();
  private readonly attention = new Attention(this.flag, this.wakeFd);
  private readonly volatileFd: number;
  private readonly readLog = createSlotLog();
  /** Of the same kind: the slots that are written. Only where zram chooses them is anybody told, and zram may come later. */
  private readonly writeLog = createSlotLog();
  private readonly common: Pick<RefineWorkerInput, 'store' | 'volatile' | 'wakeFd' | 'attention'>;
  private nextId = 1;

  private constructor(
    private readonly options: PagerOptions,
    channel: ChannelPlan,
    readonly storeFd: number,
    store: StoreMapping,
    deadPid: number | null,
  ) {
    this.tables = new Tables(store);
    const volatile = createVolatile(store.geometry, options.workers);
    this.volatileFd = volatile.fd;
    this.shared = new Volatile(volatile, this.tables);
    this.common = { store, volatile, wakeFd: this.wakeFd, attention: this.flag };
    const { stagingBytes } = options;
    const logs = { readLog: this.readLog.address, writeLog: this.writeLog.address };
    const input: DataLoopInput = { ...this.common, ...logs, storeFd, channel, stagingBytes, deadPid };
    this.loop = new Worker(new URL('./requests/data-loop.js', import.meta.url), { workerData: input });
    let park!: () => void;
    let start!: (started: Started) => void;
    this.parked = new Promise((resolve) => (park = resolve));
    this.started = new Promise((resolve) => (start = resolve));
    this.ended = this.follow(park, start);
    const { superblock } = this.tables;
    this.queue = new RefineQueue({
      windowOpen: this.shared.windowOpen,
      sequence: () => Atomics.load(superblock, Super.SEQUENCE),
      clusters: options.encoding.clusters,
      templateSize: (pack) => (this.packs.get(pack)?.sections.map[1] ?? 0) / Uint32Array.BYTES_PER_ELEMENT,
      filled: () => this.shared.counters[Counter.STAGED_BYTES] / stagingBytes,
      urgency: this.urgency,
      trained: (trained) => void this.request({ op: 'addDictionary', trained }),
    });
  }

  /** An empty store. Resolves when the data loop answers requests of the channel. */
  static async start(options: PagerOptions, channel: ChannelPlan): Promise<Engine> {
    const fd = createMemoryFile('agentzip-store');
    const store = formatStore(fd, {
      slots: Math.floor(options.deviceBytes / PAGE),
      arenaBytes: Math.floor(options.storeBytes / SEGMENT) * SEGMENT,
    });
    const engine = new Engine(options, channel, fd, store, null);
    await Promise.race([engine.started, engine.ended]);
    return engine;
  }

  /** Over the store of the pager `pid` that serves the channel. Resolves when the data loop could take its place. */
  static async standBy(
    options: PagerOptions,
    channel: ChannelPlan,
    storeFd: number,
    pid: number,
  ): Promise<Engine> {
    const engine = new Engine(options, channel, storeFd, openStore(storeFd), pid);
    await Promise.race([engine.parked, engine.ended]);
    return engine;
  }

  /** The data loop has taken over: here are the names and packs as they are now. */
  takeOver({ packs }: Started): void {
    this.tables = new Tables(this.tables.mapping);
    this.packs.clear();
    for (const mapping of packs) this.packs.set(mapping.pack, mapping);
  }

  /** For a standby: the pager has loaded a pack, or let it go (null). The loop takes it in when it takes over. */
  foresee(pack: number, path: string | null): void {
    const known = this.packs.get(pack);
    if (known !== undefined) {
      void this.request({ op: 'removePack', pack });
      this.packs.delete(pack);
      unmapPack(known);
    }
    if (path === null) return;
    const mapping = mapPack(pack, path);
    this.packs.set(pack, mapping);
    void this.request({ op: 'addPack', path, mapping });
  }

  /** Descriptor of the log of reads. */
  get readLogFd(): number {
    return this.readLog.fd;
  }

  /** Descriptor of the log of writes. */
  get writeLogFd(): number {
    return this.writeLog.fd;
  }

  /** Bytes of memory of the store: arena, tables and indexes, as the kernel counts them. */
  get poolBytes(): number {
    return memoryBytes(this.storeFd) + this.indexBytes;
  }

  private get indexBytes(): number {
    const parts = [this.volatileFd, this.readLog.fd, this.writeLog.fd];
    return parts.reduce((sum, fd) => sum + memoryBytes(fd), 0);
  }

  storeMemory(usedSlots: number): StoreMemory {
    return storeMemory(this.tables, this.shared, usedSlots, {
      store: memoryBytes(this.storeFd),
      index: this.indexBytes,
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
      await this.request({ op: 'addPack', path, mapping });
      this.queue.addPack({ op: 'addPack', mapping });
      this.packChanged(pack, path);
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
    this.packChanged(pack, null);
    return true;
  }

  /** Starts the refine workers. Nothing waits for them. */
  employAll(): void {
    const { workers, encoding, stagingBytes } = this.options;
    for (let worker = 0; worker < workers; worker++) {
      this.employ({ ...this.common, worker, encoding, stagingBytes, packs: [] });
    }
  }

  /** Starts a refine worker, and another when it dies: pages can wait, so its end harms nobody. */
  private employ(input: RefineWorkerInput, deaths = 0): void {
    const workerData = { ...input, packs: [...this.packs.values()] };
    const worker = new Worker(new URL('./refine/refine-worker.js', import.meta.url), { workerData });
    worker.on('error', (error: Error) => {
      process.stderr.write(`agentzip-pager: refine worker ${input.worker}: ${error.stack}\n`);
      this.queue.leave(worker);
      if (deaths < MAX_DEATHS) this.employ(input, deaths + 1);
    });
    this.queue.join(worker);
  }

  private follow(park: () => void, start: (started: Started) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.loop.on('error', reject);
      this.loop.on('message', (message: DataLoopReply | DataLoopNotice) => {
        if ('parked' in message) return park();
        if ('started' in message) return start(message.started);
        if ('ended' in message) return resolve();
        this.waiting.get(message.id)?.(message);
        this.waiting.delete(message.id);
      });
    });
  }
}
