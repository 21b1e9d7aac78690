import { closeSync, fstatSync } from 'node:fs';
import { Workspace } from '../../codec/kernels.js';
import { awaitsRefinement } from '../../codec/kinds.js';
import { dropCache } from '../../native/files.js';
import { PAGE } from '../../native/libc.js';
import { memfdCreate, munmap, residentBytes } from '../../native/memory.js';
import { threadCpuMs } from '../../native/process.js';
import { NO_TEMPLATE_PAGE } from '../../pager/protocol.js';
import { Clusterer, PASS_PAGES } from '../../store/clusterer.js';
import { layout, SEGMENT, Super } from '../../store/layout.js';
import { openPack } from '../../store/pack.js';
import { mapPack, packResidentBytes, PackSet, type PackMapping, unmapPack } from '../../store/packs.js';
import { recover } from '../../store/recovery.js';
import type { EncodingOptions } from '../../store/encoding.js';
import { Refiner } from '../../store/refiner.js';
import { Store, STORE_BYTES } from '../../store/store.js';
import { formatStore, Tables } from '../../store/tables.js';
import { createVolatile, memoryBytes, Volatile, type VolatileMapping } from '../../store/volatile.js';

/** Results between two commits, and what is looked at when house is kept: as the pager's threads have it. */
const RESULTS_A_RING = 16;
const HOUSE = { objects: 4000, punches: 1024, segments: 64 };
/** Least rounds: each moves what the one before has made room for, and looks at another sink. In the pager, some seconds. */
const ROUNDS = 100;
/** Room for what rounding up to blocks costs when every page stays raw. */
const ARENA_SLACK = 64 << 20;

/** Memory of the store in bytes, as the kernel counts it. */
export interface StoreMemory {
  arena: number;
  dictionaries: number;
  tables: number;
  indexes: number;
  /** Results on their way from the worker to the data loop, and counters: the same for any number of pages. */
  buffers: number;
}

/**
 * The product's store, driven as the pager's data loop and one of its refine workers drive it, in one thread and
 * without a device. What it holds is in two memory files, gone with `close`.
 */
export class ReplayStore {
  readonly tables: Tables;
  readonly store: Store;
  readonly packs = new Map<number, PackMapping>();
  /** CPU time spent, ms, and pages refined. */
  readonly spent = { refineMs: 0, commitMs: 0, refined: 0, clusterMs: 0 };
  readonly workspace = new Workspace(2 * PAGE + STORE_BYTES);
  private readonly shared: Volatile;
  private readonly refiner: Refiner;
  private readonly clusterer: Clusterer;
  private readonly packSet = new PackSet();
  private readonly fd = memfdCreate('agentzip-replay-store');
  private readonly volatile: VolatileMapping;

  constructor(
    pages: number,
    private readonly encoding: EncodingOptions,
  ) {
    const arenaBytes = Math.ceil((pages * PAGE + ARENA_SLACK) / SEGMENT) * SEGMENT;
    const geometry = { slots: pages, arenaBytes };
    this.tables = new Tables(formatStore(this.fd, geometry));
    this.volatile = createVolatile(geometry, 1);
    this.shared = new Volatile(this.volatile, this.tables);
    this.store = new Store(this.tables, this.shared, this.packSet, this.workspace, {
      fd: this.fd,
      // A sandbox is staged as a whole before it is refined, however large it is.
      stagingBytes: Infinity,
      scratch: 2 * PAGE,
    });
    recover(this.store, this.shared);
    const { hashes, sketches, rings } = this.shared;
    this.refiner = new Refiner(this.tables, this.packSet, hashes, sketches, rings[0], encoding);
    this.clusterer = new Clusterer(this.tables, this.packSet, rings[0], this.shared.apart, encoding.level);
  }

  /** Number of the pack at `path`; AZ_PACK_INVALID. */
  addPack(path: string): number {
    const known = this.tables.packs.find(path);
    if (known !== 0) return known;
    const pack = this.tables.packs.add(path);
    forgetCached(path);
    const mapping = mapPack(pack, path);
    this.packs.set(pack, mapping);
    this.packSet.add(mapping);
    return pack;
  }

  /** Does the pack hold a page at this template address? Zero and same-filled ones it does not. */
  hasTemplatePage(pack: number, templatePage: number): boolean {
    const map = this.packSet.get(pack)?.map;
    return map !== undefined && templatePage < map.length && map[templatePage] !== 0;
  }

  owner(sandbox: string, domain: string): number {
    const owner = this.tables.owners.add(sandbox);
    this.tables.ownerDomains[owner] = this.tables.domains.add(domain);
    return owner;
  }

  write(slot: number, page: Uint8Array): void {
    this.workspace.bytes.set(page, 0);
    if (!this.store.write(slot, 0)) throw new Error(`the store is full at slot ${slot}`);
  }

  /** The slot's page, in the workspace until the next call; null when it is damaged. */
  read(slot: number): Uint8Array | null {
    return this.store.read(slot, PAGE) ? this.workspace.bytes.subarray(PAGE, 2 * PAGE) : null;
  }

  /** Claims the slots from `first` on for their owner and refines them: one window of one sandbox. */
  refine(owner: number, first: number, templatePages: Uint32Array, pack: number): void {
    const { tables, spent } = this;
    const slots = Uint32Array.from(templatePages, (_, i) => first + i);
    const { staged } = this.store.claim(owner, tables.superblock[Super.SEQUENCE], slots, null);
    const common = { owner, domain: tables.ownerDomains[owner], pack: this.packSet.get(pack) };
    for (let at = 0; at < staged.length; at += RESULTS_A_RING) {
      const end = Math.min(at + RESULTS_A_RING, staged.length);
      const started = threadCpuMs();
      for (let i = at; i < end; i++) {
        const templatePage = templatePages[staged[i]] ?? NO_TEMPLATE_PAGE;
        const task = { ...common, slot: slots[staged[i]], templatePage };
        if (this.refiner.refine(task) !== 'gone') spent.refined++;
      }
      const encoded = threadCpuMs();
      while (this.store.commitNext(this.shared.rings[0]));
      spent.refineMs += encoded - started;
      spent.commitMs += threadCpuMs() - encoded;
    }
    if (this.refiner.trains) this.train();
    if (this.encoding.clusters) this.cluster(owner);
    this.keepHouse();
  }

  memory(): StoreMemory {
    const { mapping, arenaAddress, arenaFileOffset } = this.tables;
    const { hashes, sketches } = this.shared;
    const [at, bytes] = layout(mapping.geometry).sections.dictionaryBytes;
    const dictionaries = residentBytes(mapping.address + at, bytes);
    const indexes = hashes.usedBytes + sketches.used().byteLength;
    return {
      arena: residentBytes(arenaAddress, mapping.geometry.arenaBytes),
      dictionaries,
      tables: residentBytes(mapping.address, arenaFileOffset) - dictionaries,
      indexes,
      buffers: Math.max(0, memoryBytes(this.volatile.fd) - indexes),
    };
  }

  /** Bytes of template pages in memory: every page that was looked at as a base. */
  baseResidentBytes(): number {
    return [...this.packs.values()].reduce((sum, mapping) => sum + packResidentBytes(mapping), 0);
  }

  /** Pages that were not refined: there must be none. */
  stagedPages(): number {
    const { slotObject, objectKind, superblock } = this.tables;
    const used = slotObject.subarray(0, superblock[Super.HIGH_SLOT]);
    return used.reduce((sum, object) => sum + (awaitsRefinement(objectKind[object]) ? 1 : 0), 0);
  }

  /** Frees everything; neither tables nor workspace may be used afterwards. */
  close(): void {
    for (const mapping of this.packs.values()) unmapPack(mapping);
    const { address, geometry } = this.tables.mapping;
    munmap(address, layout(geometry).bytes);
    munmap(this.volatile.address, fstatSync(this.volatile.fd).size);
    closeSync(this.fd);
    closeSync(this.volatile.fd);
  }

  /** What a later window does with what has rested by then. */
  private cluster(owner: number): void {
    const { tables, store, spent } = this;
    const task = { owner, domain: tables.ownerDomains[owner], before: tables.superblock[Super.SEQUENCE] };
    const started = threadCpuMs();
    for (let from = 0; from >= 0;) {
      from = this.clusterer.pass(task, from, PASS_PAGES, () => true);
      while (store.commitNext(this.shared.rings[0]));
    }
    spent.clusterMs += threadCpuMs() - started;
  }

  private train(): void {
    const started = threadCpuMs();
    const trained = this.refiner.train();
    if (trained !== null) this.store.dictionaries.add(trained.domain, trained.bytes, trained.replaces);
    this.spent.refineMs += threadCpuMs() - started;
  }

  /** What the data loop does while it rests, until nothing is left to do. */
  private keepHouse(): void {
    const rounds = Math.max(ROUNDS, Math.ceil(this.tables.superblock[Super.HIGH_OBJECT] / HOUSE.objects));
    for (let round = 0; round < rounds; round++) {
      this.store.objects.compact(HOUSE.objects);
      for (let left = HOUSE.punches; left > 0 && this.store.giveBack(HOUSE.segments);) left--;
    }
  }
}

/** Takes a pack's pages out of the page cache, where an earlier replay has left them: they would count as bases. */
function forgetCached(path: string): void {
  const fd = openPack(path);
  dropCache(fd);
  closeSync(fd);
}
