import { DUPLICATE, Result, type ResultRing } from './results.js';
import { canBeBase, Kind } from '../codec/kinds.js';
import { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { memcpy } from '../native/memory.js';
import { ZstdCompressor, ZstdDecompressor } from '../native/zstd.js';
import { Decoder } from './decoder.js';
import type { HashIndex } from './hash-index.js';
import { packReference, type PackSet, type PackView } from './packs.js';
import { MAX_CANDIDATES, type SketchIndex } from './sketch-index.js';
import type { Tables } from './tables.js';

/** What a refiner may use; from the policy's `encoding`. */
export interface EncodingOptions {
  /** Stored size over page size from which the page stays raw. */
  cutoff: number;
  /** zstd level. */
  level: number;
  delta: boolean;
  siblings: boolean;
  duplicates: boolean;
  /** Bases tried from each sketch index. */
  candidates: number;
}

/** A page to refine: where it is and where its bases may be. */
export interface Task {
  slot: number;
  owner: number;
  domain: number;
  pack: PackView | undefined;
  /** Template address in pages, NO_TEMPLATE_PAGE for none. */
  templatePage: number;
}

/** A delta this small ends the search; so does one this small end the wish for plain zstd. Bytes. */
const GOOD_DELTA = 200;
const FAIR_DELTA = 1024;
/** Bases tried, the nearest first; a second one only when it shares more than a few of the 512 words in place. */
const DELTAS_TRIED = 2;
const FAR_WORDS = 448;

const AT = {
  page: 0,
  output: PAGE,
  best: 2 * PAGE,
  check: 3 * PAGE,
  sketch: 4 * PAGE,
  decoder: 5 * PAGE,
  bases: 7 * PAGE,
};
const MAX_BASES = 1 + 2 * MAX_CANDIDATES;

/**
 * Picks the cheapest encoding of one staged page: from shared bytes to bytes, nothing of the store is changed here.
 * What it reads may be replaced under it; everything is verified against hashes here and against the tables by the
 * data loop, so the worst case is work for nothing.
 */
export class Refiner {
  private readonly workspace = new Workspace(AT.bases + MAX_BASES * PAGE);
  private readonly address = this.workspace.address;
  private readonly compressor: ZstdCompressor;
  private readonly decompressor = new ZstdDecompressor();
  private readonly decoder: Decoder;
  private readonly found = new Uint32Array(MAX_CANDIDATES);
  /** Bases in the workspace: what names them, their kind of delta, how many words differ. */
  private readonly baseName = new Uint32Array(MAX_BASES);
  private readonly baseKind = new Uint8Array(MAX_BASES);
  private readonly baseDiffers = new Uint16Array(MAX_BASES);
  private bases = 0;
  /** The one that `tryDeltas` found best. */
  private bestBase = 0;
  private readonly capacity: number;

  constructor(
    private readonly tables: Tables,
    packs: PackSet,
    private readonly hashes: HashIndex,
    private readonly sketches: SketchIndex,
    private readonly ring: ResultRing,
    private readonly options: EncodingOptions,
  ) {
    this.compressor = new ZstdCompressor(options.level);
    this.decoder = new Decoder(tables, packs, this.workspace, AT.decoder);
    this.capacity = Math.floor(PAGE * options.cutoff);
  }

  /** Publishes a result for the slot; false when it holds no staged page any more. */
  refine(task: Task): boolean {
    const { tables, ring } = this;
    const sequence = tables.slotSequence[task.slot];
    const staged = tables.slotObject[task.slot];
    if (tables.objectKind[staged] !== Kind.STAGED || !this.decoder.read(staged, AT.page)) return false;
    const entry = ring.reserve();
    const { words } = ring;
    words[entry + Result.SLOT] = task.slot;
    words[entry + Result.SEQUENCE] = sequence;
    words[entry + Result.STAGED] = staged;
    words[entry + Result.OWNER] = task.owner;
    if (!this.findEqual(task, staged, entry)) this.encode(task, entry);
    ring.publish();
    return true;
  }

  /** An object of the domain, or a page of the template, with the very same bytes. */
  private findEqual(task: Task, staged: number, entry: number): boolean {
    const low = this.tables.objectHashLow[staged];
    const high = this.tables.objectHashHigh[staged];
    if (task.pack !== undefined) {
      const page = task.pack.byHash.find(low, high, 0);
      if (page !== 0 && page <= task.pack.pages) {
        memcpy(this.address + AT.check, task.pack.address(page), PAGE);
        if (this.equals(AT.check))
          return this.name(entry, Kind.TEMPLATE, 0, packReference(task.pack.mapping.pack, page));
      }
    }
    if (!this.options.duplicates) return false;
    const object = this.hashes.find(low, high, task.domain);
    if (object === 0 || !this.decoder.read(object, AT.check) || !this.equals(AT.check)) return false;
    return this.name(entry, DUPLICATE, 0, object, AT.check);
  }

  private equals(at: number): boolean {
    return this.workspace.kernels.differingWords(AT.page, at) === 0;
  }

  private encode(task: Task, entry: number): void {
    const { workspace, ring } = this;
    workspace.kernels.sketch(AT.page, AT.sketch);
    for (let i = 0; i < 4; i++) ring.words[entry + Result.SKETCH + i] = workspace.words[AT.sketch / 4 + i];
    this.bases = 0;
    if (this.options.delta) this.gatherBases(task);
    let length = this.tryDeltas();
    const base = length > 0 ? this.bestBase : -1;
    if (length === 0 || length > FAIR_DELTA) {
      const plain = this.compressor.compress(
        this.address + AT.output,
        this.capacity,
        this.address + AT.page,
        PAGE,
      );
      if (plain > 0 && (length === 0 || plain < length) && this.restores(AT.output, plain, -1)) {
        this.put(entry, AT.output, plain);
        return void this.name(entry, Kind.ZSTD, plain, 0);
      }
    }
    if (length > 0 && !this.restores(AT.best, length, base)) length = 0;
    if (length === 0) return void this.name(entry, Kind.RAW, PAGE, 0);
    this.put(entry, AT.best, length);
    this.name(entry, this.baseKind[base], length, this.baseName[base], AT.bases + base * PAGE);
  }

  /** Length of the smallest delta, which is then at AT.best; 0 when there is none below the cut-off. */
  private tryDeltas(): number {
    let best = 0;
    for (let tried = 0; tried < DELTAS_TRIED && tried < this.bases; tried++) {
      const base = this.nearestBase();
      if (best > 0 && this.baseDiffers[base] > FAR_WORDS) break;
      this.baseDiffers[base] = 0xffff;
      const from = this.address + AT.page;
      const prefix = this.address + AT.bases + base * PAGE;
      const limit = best === 0 ? this.capacity : best - 1;
      const length = this.compressor.compressDelta(this.address + AT.output, limit, from, PAGE, prefix, PAGE);
      if (length <= 0) continue;
      this.workspace.bytes.copyWithin(AT.best, AT.output, AT.output + length);
      this.bestBase = base;
      best = length;
      if (best <= GOOD_DELTA) break;
    }
    return best;
  }

  private nearestBase(): number {
    let nearest = 0;
    for (let i = 1; i < this.bases; i++) if (this.baseDiffers[i] < this.baseDiffers[nearest]) nearest = i;
    return nearest;
  }

  /** The template's page at the same address, then what looks alike in the template, then in the domain. */
  private gatherBases(task: Task): void {
    const sketch = this.workspace.words;
    const { pack } = task;
    if (pack !== undefined) {
      const same = task.templatePage < pack.map.length ? pack.map[task.templatePage] : 0;
      if (same !== 0) this.addTemplateBase(pack, same);
      const count = Math.min(
        this.options.candidates,
        pack.sketches.find(sketch, AT.sketch / 4, 0, this.found),
      );
      for (let i = 0; i < count; i++) if (this.found[i] !== same) this.addTemplateBase(pack, this.found[i]);
    }
    if (!this.options.siblings) return;
    const count = this.sketches.find(sketch, AT.sketch / 4, task.domain, this.found);
    for (let i = 0, added = 0; i < count && added < this.options.candidates; i++) {
      const object = this.found[i];
      if (this.tables.objectDomain[object] !== task.domain || !canBeBase(this.tables.objectKind[object]))
        continue;
      if (!this.decoder.read(object, AT.bases + this.bases * PAGE)) continue;
      this.addBase(Kind.DELTA, object);
      added++;
    }
  }

  private addTemplateBase(pack: PackView, page: number): void {
    if (page > pack.pages) return;
    memcpy(this.address + AT.bases + this.bases * PAGE, pack.address(page), PAGE);
    this.addBase(Kind.TEMPLATE_DELTA, packReference(pack.mapping.pack, page));
  }

  /** Counts the page at the next place among the bases in. */
  private addBase(kind: Kind, name: number): void {
    const base = this.bases++;
    this.baseName[base] = name;
    this.baseKind[base] = kind;
    this.baseDiffers[base] = this.workspace.kernels.differingWords(AT.page, AT.bases + base * PAGE);
  }

  /** Does the encoding give the page back? `base` -1: plain. */
  private restores(at: number, length: number, base: number): boolean {
    const to = this.address + AT.check;
    const from = this.address + at;
    const restored =
      base < 0
        ? this.decompressor.decompress(to, PAGE, from, length)
        : this.decompressor.decompressDelta(
            to,
            PAGE,
            from,
            length,
            this.address + AT.bases + base * PAGE,
            PAGE,
          );
    return restored === PAGE && this.equals(AT.check);
  }

  private put(entry: number, at: number, length: number): void {
    memcpy(this.ring.payload(entry), this.address + at, length);
  }

  /** `baseAt`: where in the workspace the base's page is; its hash is taken from those very bytes. */
  private name(entry: number, kind: number, length: number, base: number, baseAt = AT.page): true {
    const { words } = this.ring;
    const hash = AT.sketch + 32;
    this.workspace.kernels.xxh64(baseAt, hash);
    words[entry + Result.KIND] = kind;
    words[entry + Result.LENGTH] = length;
    words[entry + Result.BASE] = base;
    words[entry + Result.BASE_HASH_LOW] = this.workspace.words[hash / 4];
    words[entry + Result.BASE_HASH_HIGH] = this.workspace.words[hash / 4 + 1];
    return true;
  }
}
