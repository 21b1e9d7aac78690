import { PAGE } from '../../native/libc.js';
import type { EncodingCounts, RefineResult } from '../../pager/protocol.js';
import type { CompressionStatus, Drift, DriftCause } from '../api.js';

/** "Recent" and "usual" are moving averages over about so many pages; below the third nothing is called usual. */
const RECENT_PAGES = 8192;
const USUAL_PAGES = 131_072;
const LEAST_PAGES = 4 * RECENT_PAGES;
/** Bytes a page, recent over usual, from which compression is said to drift, and below which it no longer is. */
const BEGINS = 1.5;
const ENDS = 1.2;
/** Pages that are nearly all duplicates take nothing: more than nothing is no drift while it is little. */
const LEAST_BYTES = 64;

/** What refinement made of pages, with what came long ago counting less. */
interface Sums {
  pages: number;
  bytes: number;
  /** Without any base although the template has a page there; without any base where it has none. */
  misfits: number;
  alone: number;
  aloneBytes: number;
  deltaBytes: number;
}

const NOTHING: Sums = { pages: 0, bytes: 0, misfits: 0, alone: 0, aloneBytes: 0, deltaBytes: 0 };

function sumsOf({ pages, bytesOut, misfits, deltas, encodings }: RefineResult): Sums {
  const without = encodings.zstd + encodings.dictionary + encodings.raw;
  return {
    ...{ pages, bytes: bytesOut, misfits, alone: Math.max(0, without - misfits) },
    ...{ aloneBytes: Math.max(0, bytesOut - deltas.bytes), deltaBytes: deltas.bytes },
  };
}

/** `over`: pages after which what was there before counts for a third. */
function blend(sums: Sums, more: Sums, over: number): Sums {
  const keep = Math.exp(-more.pages / over);
  const added = Object.entries(more).map(([key, value]) => [key, sums[key as keyof Sums] * keep + value]);
  return Object.fromEntries(added) as unknown as Sums;
}

const perPage = ({ bytes, pages }: Sums): number => (pages === 0 ? 0 : bytes / pages);
const share = (part: number, { pages }: Sums): number => (pages === 0 ? 0 : part / pages);

/** Of what makes pages larger than usual, what weighs most, in bytes a page. */
function causeOf(now: Sums, usual: Sums): DriftCause {
  const without = now.misfits + now.alone;
  const size = without === 0 ? 0 : now.aloneBytes / without;
  const weights: Record<DriftCause, number> = {
    template_mismatch: (share(now.misfits, now) - share(usual.misfits, usual)) * size,
    new_content: (share(now.alone, now) - share(usual.alone, usual)) * size,
    collision: share(now.deltaBytes, now) - share(usual.deltaBytes, usual),
  };
  const [[cause]] = Object.entries(weights).sort(([, a], [, b]) => b - a);
  return cause as DriftCause;
}

/** How well the pages of one template's sandboxes compress, and whether that has become worse. */
export class Compression {
  private recent = NOTHING;
  private usual = NOTHING;
  private readonly total = { pages: 0, bytesIn: 0, bytesOut: 0 };
  private encodings: EncodingCounts | null = null;
  private drift: Drift | null = null;

  /** Takes in what a window's refinement has done. Returns the drift when it begins with this window. */
  note(result: RefineResult): Drift | null {
    if (result.pages === 0) return null;
    const sums = sumsOf(result);
    const before = this.usual;
    this.recent = blend(this.recent, sums, RECENT_PAGES);
    this.usual = blend(this.usual, sums, USUAL_PAGES);
    this.total.pages += result.pages;
    this.total.bytesIn += result.bytesIn;
    this.total.bytesOut += result.bytesOut;
    this.encodings = addCounts(this.encodings, result.encodings);
    if (this.total.pages < LEAST_PAGES) return null;
    const [usual, recent] = [before, this.recent].map((of) => Math.max(LEAST_BYTES, perPage(of)));
    const growth = recent / usual;
    if (this.drift !== null) {
      if (growth < ENDS) this.drift = null;
      return null;
    }
    if (!(growth > BEGINS)) return null;
    const cause = causeOf(this.recent, before);
    return (this.drift = { cause, usualRatio: PAGE / usual, recentRatio: PAGE / recent, since: Date.now() });
  }

  status(): CompressionStatus {
    const { pages, bytesIn, bytesOut } = this.total;
    const recent = perPage(this.recent);
    return {
      ...{ pages, bytesIn, bytesOut },
      ratio: bytesOut > 0 ? bytesIn / bytesOut : null,
      recentRatio: recent > 0 ? PAGE / recent : null,
      encodings: this.encodings,
      drift: this.drift,
    };
  }
}

function addCounts(sum: EncodingCounts | null, more: EncodingCounts): EncodingCounts {
  const added = Object.entries(more).map(([key, count]) => [
    key,
    count + (sum?.[key as keyof EncodingCounts] ?? 0),
  ]);
  return Object.fromEntries(added) as unknown as EncodingCounts;
}
