import { PAGE } from '../native/libc.js';
import { reserve } from '../native/memory.js';
import { Digests } from './digests.js';
import { MAX_OWNERS } from './layout.js';
import { packOf, type PackSet } from './packs.js';

/**
 * Pages of a run, and how many it shares with the run before and the one behind. Part of the store's format. In a
 * program started afresh the allocator puts things some pages away from where the template has them; a longer run
 * finds little more, and costs the match finder its cache.
 */
const RUN_PAGES = 32;
const OVERLAP = 8;
const MAX_RUN_PAGES = OVERLAP + RUN_PAGES + OVERLAP;

/** First page of the run around a page of a pack. Pages count from 1. */
export const runAround = (page: number): number => Math.max(1, page - ((page - 1) % RUN_PAGES) - OVERLAP);

/** How many pages the run that begins at `first` has, in a pack of `pages` pages. */
export const runPages = (first: number, pages: number): number =>
  Math.min((first === 1 ? 0 : OVERLAP) + RUN_PAGES + OVERLAP, pages + 1 - first);

/**
 * A forked sandbox has nearly all template pages where the template has them: runs then save little. Below so many bytes saved a try (a moving average over about 2^SHIFT tries)
 * only one run in SAMPLE is tried.
 */
const WORTH = 24;
const SHIFT = 6;
const SAMPLE = 32;

/** What one refine worker knows of runs: whose pages they are good for. */
export class Runs {
  /** Bytes saved a try, by owner. */
  private readonly saved = new Float32Array(MAX_OWNERS).fill(NaN);
  /** The same over all owners: what is expected of one that is not known yet. */
  private savedByAll = 2 * WORTH;
  /** Native memory for the pages of one run, when it is needed. */
  private run: number | undefined;

  constructor(private readonly digests: Digests) {}

  /** Shall the run that begins at page `first` be tried for a page of this owner? */
  isWorth(owner: number, first: number): boolean {
    return this.expected(owner) >= WORTH || Math.floor(first / RUN_PAGES) % SAMPLE === 0;
  }

  learn(owner: number, savedBytes: number): void {
    const expected = this.expected(owner);
    this.saved[owner] = expected + (savedBytes - expected) / 2 ** SHIFT;
    this.savedByAll += (savedBytes - this.savedByAll) / 2 ** SHIFT;
  }

  private expected(owner: number): number {
    const saved = this.saved[owner];
    return Number.isNaN(saved) ? this.savedByAll : saved;
  }

  /** Digest of the run that a reference names; 0 when it can not be had, or libzstd has no memory for it. */
  digest(packs: PackSet, reference: number): number {
    // A pack that was loaded again is another view: what was made for the old one is never used again.
    const pack = packs.get(packOf(reference));
    const known = this.digests.find(pack, reference);
    const bytes = packs.runBytes(reference);
    if (known !== 0 || bytes === 0) return known;
    // From the frames: to look at raw pages that are then not used would make the whole template resident.
    this.run ??= reserve(MAX_RUN_PAGES * PAGE);
    for (let at = 0; at < bytes; at += PAGE) {
      if (!packs.read(reference + at / PAGE, this.run + at)) return 0;
    }
    return this.digests.make(pack, reference, this.run, bytes);
  }
}
