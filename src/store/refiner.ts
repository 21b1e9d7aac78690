import { DUPLICATE, MISFIT, Result, type ResultRing } from './results.js';
import { awaitsRefinement, isAlone, Kind, namesObject, namesTemplate, PAIR_HEAD } from '../codec/kinds.js';
import { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { memcpy } from '../native/memory.js';
import { copyingDigestMaker, digestMaker, ZstdCompressor, ZstdDecompressor } from '../native/zstd.js';
import { Bases, BASES_BYTES } from './bases.js';
import { Decoder, DECODER_BYTES } from './decoder.js';
import { digestOf, openDictionary } from './dictionaries.js';
import { Digests } from './digests.js';
import type { EncodingOptions } from './encoding.js';
import type { HashIndex } from './hash-index.js';
import { packReference, type PackSet, type PackView } from './packs.js';
import { runAround, Runs } from './runs.js';
import { Shrinker, type Unclaimed } from './shrinker.js';
import type { SketchIndex } from './sketch-index.js';
import type { Tables } from './tables.js';
import { type Trained, Training } from './training.js';

/** A page to refine: where it is and where its bases may be. */
export interface Task {
  slot: number;
  owner: number;
  domain: number;
  pack: PackView | undefined;
  /** Template address in pages, NO_TEMPLATE_PAGE for none. */
  templatePage: number;
}

/** `deferred`: it is still to be refined. `gone`: there is nothing to refine. */
export type Outcome = 'refined' | 'deferred' | 'gone';

/** A delta this small ends the search; so does one this small end the wish for plain zstd. Bytes. */
const GOOD_DELTA = 300;
const FAIR_DELTA = 1024;
/** The same of a page of the domain, which the dictionary was made from too: it hardly does better. */
const FAIR_SIBLING = 2048;
/** Bases tried alone, the nearest first; a second one only when it shares more than a few of the 512 words in place. */
const DELTAS_TRIED = 2;
const FAR_WORDS = 448;
/** Changed words up to which they are listed. Listing costs a tenth of zstd's time: it may be larger by as much. */
const SPARSE_WORDS = 24;
const SPARSE_MARGIN = 1.1;
/** A list this small is the end of it, bytes: zstd would save a block's step at most. */
const GOOD_SPARSE = 64;

/**
 * Least level of a page with a dictionary, unless there is no time. Below 6 libzstd hardly looks into a dictionary: pages
 * took 94 to 102 % of what they take alone, at level 6 86 to 92 %, for four times the time. Level 5 takes a fifth less time,
 * and with it all pages of `interpreter-8` took 1 % more.
 */
const DICTIONARY_LEVEL = 6;

const AT = {
  page: 0,
  output: PAGE,
  best: 2 * PAGE,
  sparse: 3 * PAGE,
  check: 4 * PAGE,
  sketch: 5 * PAGE,
  pair: 6 * PAGE,
  decoder: 8 * PAGE,
  bases: 9 * PAGE + DECODER_BYTES,
};
/** Of a list of SPARSE_WORDS words. */
const SPARSE_BYTES = 4 + 10 * SPARSE_WORDS;

const isGood = (sparse: number): boolean => sparse > 0 && sparse <= GOOD_SPARSE;

/**
 * Picks the cheapest encoding of one staged page: from shared bytes to bytes, nothing of the store is changed here.
 * What it reads may be replaced under it; everything is verified against hashes here and against the tables by the
 * data loop, so the worst case is work for nothing.
 */
export class Refiner {
  private readonly workspace = new Workspace(AT.bases + BASES_BYTES);
  private readonly address = this.workspace.address;
  private readonly compressor: ZstdCompressor;
  private readonly decompressor = new ZstdDecompressor();
  private readonly decoder: Decoder;
  private readonly shrinker: Shrinker;
  /** Many pages wait: time is worth more than bytes. */
  hurried = false;
  /** So many wait that each is first only made smaller, in a third of the time, and refined when there is some. */
  rushed = false;
  /** Bytes by which pages became smaller, added up. */
  savedBytes = 0;
  private readonly dictionaries: Digests;
  private readonly hurriedDictionaries: Digests;
  private readonly runs: Runs;
  private readonly training: Training;
  private readonly bases: Bases;
  /** What was found so far, its bytes at AT.best: length 0 is nothing. Bases are numbers in `bases`, -1 none. */
  private readonly best = { kind: 0, length: 0, name: 0, base: -1, second: -1, prefix: 0, prefixBytes: 0 };
  /** Bytes up to which a page is not kept raw. */
  private capacity = PAGE;
  /** Of the dictionary tried last. */
  private version = 0;

  constructor(
    private readonly tables: Tables,
    private readonly packs: PackSet,
    private readonly hashes: HashIndex,
    sketches: SketchIndex,
    private readonly ring: ResultRing,
    private chosen: EncodingOptions,
  ) {
    const options = chosen;
    this.compressor = new ZstdCompressor(options.level);
    this.dictionaries = new Digests(digestMaker(Math.max(options.level, DICTIONARY_LEVEL)));
    this.hurriedDictionaries = new Digests(digestMaker(options.level));
    this.runs = new Runs(new Digests(copyingDigestMaker(options.level)));
    this.training = new Training(tables);
    this.decoder = new Decoder(tables, packs, this.workspace, AT.decoder);
    this.bases = new Bases(tables, this.decoder, packs, sketches, this.workspace, {
      ...{ at: AT.bases, page: AT.page, sketch: AT.sketch },
    });
    this.options = options;
    this.shrinker = new Shrinker(this.workspace, AT.check, ring, this.capacity);
  }

  /** For the pages that come next; the level stays. */
  set options(options: EncodingOptions) {
    this.chosen = options;
    this.capacity = Math.floor(PAGE * options.cutoff);
  }

  get options(): EncodingOptions {
    return this.chosen;
  }

  /** See {@link Shrinker.pass}. */
  shrink(unclaimed: Unclaimed, from: number, limit: number): number {
    return this.shrinker.pass(this.tables, this.decoder, unclaimed, AT.page, from, limit);
  }

  /** Publishes a result for the slot, unless it holds no page that waits any more. */
  refine(task: Task): Outcome {
    const { tables } = this;
    const sequence = tables.slotSequence[task.slot];
    const staged = tables.slotObject[task.slot];
    const kind = tables.objectKind[staged];
    const place = tables.objectOffset[staged];
    if (this.rushed && kind === Kind.QUICK) return 'deferred';
    if (!awaitsRefinement(kind) || !this.decoder.read(staged, AT.page)) {
      // Made smaller between two looks here, or moved by compaction: the page still waits, at another place.
      const moved = tables.slotObject[task.slot] !== staged || tables.objectOffset[staged] !== place;
      return moved && tables.slotSequence[task.slot] === sequence ? 'deferred' : 'gone';
    }
    const entry = this.ring.begin(task.slot, sequence, task.owner);
    const deferred = !this.findEqual(task, staged, entry) && !this.encode(task, entry);
    this.savedBytes += Math.max(0, tables.objectLength[staged] - this.ring.words[entry + Result.LENGTH]);
    this.ring.publish();
    return deferred ? 'deferred' : 'refined';
  }

  /** An object of the domain, or a page of the template, with the very same bytes. */
  private findEqual(task: Task, staged: number, entry: number): boolean {
    const low = this.tables.objectHashLow[staged];
    const high = this.tables.objectHashHigh[staged];
    if (task.pack !== undefined) {
      const page = task.pack.byHash.find(low, high, 0);
      if (page !== 0 && page <= task.pack.pages) {
        const reference = packReference(task.pack.mapping.pack, page);
        if (this.packs.read(reference, this.address + AT.check) && this.equals(AT.check))
          return this.nameEqual(task.domain, entry, low, high, reference);
      }
    }
    if (!this.options.duplicates) return false;
    const object = this.hashes.find(low, high, task.domain);
    if (object === 0 || !this.decoder.read(object, AT.check) || !this.equals(AT.check)) return false;
    return this.name(entry, DUPLICATE, 0, object, AT.check);
  }

  /** A template's page again; by an object that says so already, if there is one. */
  private nameEqual(domain: number, entry: number, low: number, high: number, reference: number): true {
    const { objectKind, objectBase } = this.tables;
    const object = this.options.duplicates ? this.hashes.find(low, high, domain) : 0;
    const isKnown = objectKind[object] === Kind.TEMPLATE && objectBase[object] === reference;
    return this.name(entry, isKnown ? DUPLICATE : Kind.TEMPLATE, 0, isKnown ? object : reference);
  }

  private equals(at: number): boolean {
    return this.workspace.kernels.differingWords(AT.page, at) === 0;
  }

  /** False when it was only made smaller. */
  private encode(task: Task, entry: number): boolean {
    const { workspace, ring, bases, best } = this;
    if (this.rushed && this.shrinker.shrink(AT.page, entry)) return false;
    workspace.kernels.sketch(AT.page, AT.sketch);
    for (let i = 0; i < 4; i++) ring.words[entry + Result.SKETCH + i] = workspace.words[AT.sketch / 4 + i];
    best.kind = Kind.FREE;
    best.length = 0;
    bases.count = 0;
    if (this.options.delta) this.tryDeltas(task);
    if (best.length === 0 || best.length > (namesTemplate(best.kind) ? FAIR_DELTA : FAIR_SIBLING))
      this.tryAlone(task.domain);
    if (best.length === 0 || !this.restores()) this.name(entry, Kind.RAW, PAGE, 0);
    else this.nameBest(entry);
    if (this.sameIn(task) !== 0 && isAlone(ring.words[entry + Result.KIND])) {
      ring.words[entry + Result.KIND] |= MISFIT;
    }
    return true;
  }

  private nameBest(entry: number): void {
    const { ring, bases, best } = this;
    memcpy(ring.payload(entry), this.address + AT.best, best.length);
    this.name(entry, best.kind, best.length, best.name, bases.at(best.base));
    if (best.second >= 0) this.nameSecond(entry, best.second);
    if (best.kind === Kind.DICTIONARY) ring.words[entry + Result.BASE_HASH_LOW] = this.version;
  }

  /** The pack's page at the same template address; 0 is none. */
  private sameIn({ pack, templatePage }: Task): number {
    return pack !== undefined && templatePage < pack.map.length ? pack.map[templatePage] : 0;
  }

  /** Enough pages were seen to make a dictionary; see Training. */
  get trains(): boolean {
    return this.training.due;
  }

  train(): Trained | null {
    return this.training.train();
  }

  /** Without a base: with the domain's dictionary, when it has one. */
  private tryAlone(domain: number): void {
    const { best, address, options } = this;
    const dictionary = options.dictionary ? openDictionary(this.tables, domain) : 0;
    if (dictionary === 0 || !this.tryDictionary(dictionary)) this.tryPrefix(Kind.ZSTD, 0, 0, 0, -1);
    // What nothing made smaller may have much in common with others like it.
    if (!options.dictionary || (best.length > 0 && !isAlone(best.kind))) return;
    this.training.learn(domain, address + AT.page, dictionary, best.length === 0 ? PAGE : best.length);
  }

  /** False when there is no memory for it. */
  private tryDictionary(dictionary: number): boolean {
    const { tables } = this;
    this.version = tables.dictionaryVersion[dictionary];
    const bytes = tables.dictionaryAddress(dictionary);
    const length = tables.dictionaryLength[dictionary];
    const digests = this.hurried ? this.hurriedDictionaries : this.dictionaries;
    const digest = digestOf(digests, tables, dictionary);
    if (digest === 0) return false;
    this.tryDigest(Kind.DICTIONARY, dictionary, digest, bytes, length);
    return true;
  }

  /** From the cheapest to try to the dearest, until one is good. */
  private tryDeltas(task: Task): void {
    const { bases, best, options } = this;
    const { pack } = task;
    const same = this.sameIn(task);
    let sparse = 0;
    if (pack !== undefined && same !== 0) {
      bases.addPage(pack, same);
      if (bases.count > 0) sparse = this.listWords(0);
    }
    // Most pages of a forked sandbox that changed little end here: nothing is looked for.
    if (!isGood(sparse)) {
      if (pack !== undefined) bases.addTemplate(pack, same, options.candidates);
      if (options.siblings) bases.addSiblings(task.domain, options.candidates);
      if (bases.count === 0) return;
      if (sparse === 0 || bases.order[0] !== 0) sparse = this.listWords(bases.order[0]);
    }
    if (!isGood(sparse)) {
      this.trySingle();
      // The dearest of all: while many pages wait, the next page gains more than this one.
      const more = !this.hurried;
      if (more && bases.count > 1 && this.wanting()) this.tryPair(bases.order[0], bases.order[1]);
      if (more && pack !== undefined && same !== 0 && this.wanting())
        this.tryRun(task.owner, pack, runAround(same));
    }
    if (sparse > 0 && (best.length === 0 || sparse <= best.length * SPARSE_MARGIN)) this.takeSparse(sparse);
  }

  /** Is what was found not good enough yet? */
  private wanting(): boolean {
    return this.best.length === 0 || this.best.length > GOOD_DELTA;
  }

  private trySingle(): void {
    const { bases } = this;
    for (let tried = 0; tried < DELTAS_TRIED && tried < bases.count && this.wanting(); tried++) {
      const base = bases.order[tried];
      if (this.best.length > 0 && bases.differs[base] > FAR_WORDS) break;
      const kind = bases.isTemplate[base] === 1 ? Kind.TEMPLATE_DELTA : Kind.DELTA;
      this.tryPrefix(kind, bases.name[base], this.address + bases.at(base), PAGE, base);
    }
  }

  /** Two bases, one of them an object; the template's page lies first, where only the object's name is short. */
  private tryPair(nearest: number, next: number): void {
    const { bases, address } = this;
    const [base, second] = bases.isTemplate[nearest] === 1 ? [next, nearest] : [nearest, next];
    if (bases.isTemplate[base] === 1) return;
    memcpy(address + AT.pair, address + bases.at(second), PAGE);
    memcpy(address + AT.pair + PAGE, address + bases.at(base), PAGE);
    const kind = bases.isTemplate[second] === 1 ? Kind.TEMPLATE_PAIR : Kind.PAIR;
    this.tryPrefix(kind, bases.name[base], address + AT.pair, 2 * PAGE, base, second);
  }

  /** The prefix is the run of template pages that begins with `first`. */
  private tryRun(owner: number, pack: PackView, first: number): void {
    const { runs, best, packs } = this;
    if (!runs.isWorth(owner, first)) return;
    const name = packReference(pack.mapping.pack, first);
    const digest = runs.digest(packs, name);
    if (digest === 0) return;
    const before = best.length === 0 ? PAGE : best.length;
    this.tryDigest(Kind.TEMPLATE_RUN, name, digest, 0, packs.runBytes(name));
    runs.learn(owner, before - (best.length === 0 ? PAGE : best.length));
  }

  /** Keeps the page as zstd with this prefix (native address; 0 bytes: none) when that is smaller than all before. */
  private tryPrefix(
    kind: Kind,
    name: number,
    prefix: number,
    prefixBytes: number,
    base: number,
    second = -1,
  ): void {
    const { compressor, address, bases, workspace } = this;
    const head = second < 0 ? 0 : PAIR_HEAD;
    if (second >= 0) workspace.words[AT.output / 4] = bases.name[second];
    const to = address + AT.output + head;
    const from = address + AT.page;
    const length =
      prefixBytes === 0
        ? compressor.compress(to, this.room() - head, from, PAGE)
        : compressor.compressDelta(to, this.room() - head, from, PAGE, prefix, prefixBytes);
    if (length > 0) this.keep(kind, name, length + head, base, second, prefix, prefixBytes);
  }

  /** The same with the digest of a prefix. */
  private tryDigest(kind: Kind, name: number, digest: number, prefix: number, prefixBytes: number): void {
    const { compressor, address } = this;
    const to = address + AT.output;
    const length = compressor.compressDigest(to, this.room(), address + AT.page, PAGE, digest);
    this.keep(kind, name, length, -1, -1, prefix, prefixBytes);
  }

  /** Bytes an encoding may take to be of use. */
  private room(): number {
    return this.best.length === 0 ? this.capacity : this.best.length - 1;
  }

  private keep(
    kind: Kind,
    name: number,
    length: number,
    base: number,
    second: number,
    prefix: number,
    prefixBytes: number,
  ): void {
    if (length <= 0 || length > this.room()) return;
    const { best, workspace } = this;
    workspace.bytes.copyWithin(AT.best, AT.output, AT.output + length);
    best.kind = kind;
    best.name = name;
    best.length = length;
    best.base = base;
    best.second = second;
    best.prefix = prefix;
    best.prefixBytes = prefixBytes;
  }

  /** Bytes of the list of words that differ from a base, at AT.sparse; 0 when they are many. */
  private listWords(base: number): number {
    const { bases, workspace } = this;
    if (bases.differs[base] > SPARSE_WORDS) return 0;
    return workspace.kernels.sparseDiff(AT.page, bases.at(base), AT.sparse, SPARSE_WORDS);
  }

  private takeSparse(length: number): void {
    const { bases, best, workspace } = this;
    const base = bases.order[0];
    best.length = 0;
    workspace.bytes.copyWithin(AT.output, AT.sparse, AT.sparse + SPARSE_BYTES);
    const kind = bases.isTemplate[base] === 1 ? Kind.TEMPLATE_SPARSE : Kind.SPARSE;
    this.keep(kind, bases.name[base], length, base, -1, 0, 0);
  }

  /** Does what was found give the page back? */
  private restores(): boolean {
    const { best, address, workspace, decompressor, decoder, bases, packs } = this;
    if (best.kind === Kind.SPARSE || best.kind === Kind.TEMPLATE_SPARSE) {
      memcpy(address + AT.check, address + bases.at(best.base), PAGE);
      return workspace.kernels.sparsePatch(AT.check, AT.best, best.length) === 1 && this.equals(AT.check);
    }
    const head = best.second < 0 ? 0 : PAIR_HEAD;
    const to = address + AT.check;
    const from = address + AT.best + head;
    const length = best.length - head;
    if (best.kind === Kind.DICTIONARY)
      return decoder.inflateWith(best.name, AT.check, PAGE, from, length) === PAGE && this.equals(AT.check);
    // This makes the raw pages that a reader of the run will need part of memory, and no others.
    const prefix = best.kind === Kind.TEMPLATE_RUN ? packs.runAddress(best.name) : best.prefix;
    const restored =
      prefix === 0
        ? decompressor.decompress(to, PAGE, from, length)
        : decompressor.decompressDelta(to, PAGE, from, length, prefix, best.prefixBytes);
    return restored === PAGE && this.equals(AT.check);
  }

  /** `baseAt`: where in the workspace the page of an object is that is named; its hash is taken from those very bytes. */
  private name(entry: number, kind: number, length: number, base: number, baseAt = AT.page): true {
    const { words } = this.ring;
    words[entry + Result.KIND] = kind;
    words[entry + Result.LENGTH] = length;
    words[entry + Result.BASE] = base;
    if (kind === DUPLICATE || namesObject(kind)) this.hash(baseAt, entry + Result.BASE_HASH_LOW);
    return true;
  }

  private nameSecond(entry: number, base: number): void {
    this.ring.words[entry + Result.SECOND] = this.bases.name[base];
    this.hash(this.bases.at(base), entry + Result.SECOND_HASH_LOW);
  }

  /** Writes the hash of the page at `at` into two words of the ring. */
  private hash(at: number, word: number): void {
    const hash = AT.sketch + 32;
    this.workspace.kernels.xxh64(at, hash);
    this.ring.words[word] = this.workspace.words[hash / 4];
    this.ring.words[word + 1] = this.workspace.words[hash / 4 + 1];
  }
}
