import { PAGE } from '../native/libc.js';
import {
  addressOf,
  MAP_ANONYMOUS,
  MAP_PRIVATE,
  memcpy,
  mmap,
  munmap,
  PROT_READ,
  PROT_WRITE,
  view,
} from '../native/memory.js';
import { trainDictionary } from '../native/zstd.js';
import { openDictionary } from './dictionaries.js';
import { DICTIONARY_BYTES } from './layout.js';
import type { Tables } from './tables.js';

/** A dictionary is made from so many pages: one of each EVERY that come, for neighbours are alike. */
const SAMPLES = 512;
const EVERY = 8;
const COLLECTION_BYTES = SAMPLES * PAGE + DICTIONARY_BYTES;
/** Domains of which samples are collected at a time, and after how many pages of others one is given up. */
const COLLECTIONS = 8;
const PATIENCE = 100_000;
/** Pages over which it is told how well a dictionary does, as a moving average over about 2^SHIFT of them. */
const SETTLE = 512;
const SHIFT = 8;
/** A dictionary is made anew when its pages take so many times what they took at first. */
const DRIFT = 1.25;

/** A dictionary to be opened in the place of the version it `replaces`; 0: there is none yet. */
export interface Trained {
  domain: number;
  replaces: number;
  bytes: Uint8Array;
}

/** How well a domain's dictionary does. */
interface Score {
  version: number;
  pages: number;
  /** Bytes a page, now and when the dictionary was young. */
  average: number;
  young: number;
}

interface Collection {
  replaces: number;
  offered: number;
  samples: number;
  /** Native address of SAMPLES pages, and of the dictionary behind them. */
  address: number;
  lastOffered: number;
}

/**
 * Collects pages that found no base, and makes dictionaries from them. One worker's: two may work for the same domain,
 * and the first to be done wins.
 */
export class Training {
  private readonly scores = new Map<number, Score>();
  private readonly collections = new Map<number, Collection>();
  /** Domains of which enough was collected. */
  private readonly ready: number[] = [];
  private told = 0;

  constructor(private readonly tables: Tables) {}

  /** Enough was collected: `train` is to be called when it is convenient. It takes some 0.1 s. */
  get due(): boolean {
    return this.ready.length > 0;
  }

  /** Tells of a page (native address) without a base, and of the bytes it took with `dictionary` (0: without any). */
  learn(domain: number, page: number, dictionary: number, bytes: number): void {
    this.told++;
    const drifts = dictionary !== 0 && this.drifts(domain, dictionary, bytes);
    let collection = this.collections.get(domain);
    if (collection === undefined && (dictionary === 0 || drifts))
      collection = this.collect(domain, dictionary);
    if (collection === undefined || collection.samples === SAMPLES) return;
    collection.lastOffered = this.told;
    if (collection.offered++ % EVERY !== 0) return;
    memcpy(collection.address + collection.samples++ * PAGE, page, PAGE);
    if (collection.samples === SAMPLES) this.ready.push(domain);
  }

  /** Null when nothing could be made, or another worker was first. */
  train(): Trained | null {
    const domain = this.ready.shift();
    const collection = domain === undefined ? undefined : this.collections.get(domain);
    if (domain === undefined || collection === undefined) return null;
    const { tables } = this;
    const { address, replaces } = collection;
    const to = address + SAMPLES * PAGE;
    const sizes = new BigUint64Array(SAMPLES).fill(BigInt(PAGE));
    const isOpen = tables.dictionaryVersion[openDictionary(tables, domain)] === replaces;
    const length = isOpen ? trainDictionary(to, DICTIONARY_BYTES, address, addressOf(sizes), SAMPLES) : 0;
    const bytes = length > 0 ? new Uint8Array(view(to, length)).slice() : null;
    this.drop(domain, collection);
    return bytes === null ? null : { domain, replaces, bytes };
  }

  /** Does the dictionary much worse than when it was young? */
  private drifts(domain: number, dictionary: number, bytes: number): boolean {
    const version = this.tables.dictionaryVersion[dictionary];
    let score = this.scores.get(domain);
    if (score?.version !== version) {
      score = { version, pages: 0, average: bytes, young: 0 };
      this.scores.set(domain, score);
    }
    score.average += (bytes - score.average) / Math.min(++score.pages, 2 ** SHIFT);
    if (score.pages === SETTLE) score.young = score.average;
    return score.pages > SETTLE && score.average > score.young * DRIFT;
  }

  private collect(domain: number, dictionary: number): Collection | undefined {
    if (this.collections.size === COLLECTIONS) this.giveUp();
    if (this.collections.size === COLLECTIONS) return undefined;
    const collection = {
      ...{
        replaces: this.tables.dictionaryVersion[dictionary],
        offered: 0,
        samples: 0,
        lastOffered: this.told,
      },
      address: mmap(COLLECTION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1),
    };
    this.collections.set(domain, collection);
    return collection;
  }

  /** A domain whose sandboxes are gone must not be waited for. */
  private giveUp(): void {
    for (const [domain, collection] of this.collections) {
      const isReady = collection.samples === SAMPLES;
      if (!isReady && this.told - collection.lastOffered > PATIENCE) return this.drop(domain, collection);
    }
  }

  private drop(domain: number, { address }: Collection): void {
    this.collections.delete(domain);
    munmap(address, COLLECTION_BYTES);
  }
}
