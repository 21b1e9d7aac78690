import { punchHole } from '../native/files.js';
import { memset, reserveWords } from '../native/memory.js';
import { SEGMENT } from './layout.js';

/** The largest block: a cluster's. */
export const MAX_BLOCK = SEGMENT / 4;

const UNIT = 16;
/**
 * Blocks of one segment are equal; the steps keep what rounding up wastes near 5 %. Above a page a segment is divided
 * by whole numbers, for what a few large blocks leave of it is much.
 */
const CLASS_SIZES = ((): number[] => {
  const sizes: number[] = [];
  for (const [upTo, step] of [
    [512, 32],
    [1024, 64],
    [2048, 128],
    [4096, 256],
  ]) {
    for (let size = (sizes.at(-1) ?? 0) + step; size <= upTo; size += step) sizes.push(size);
  }
  for (let blocks = 15; blocks >= 4; blocks--) sizes.push(Math.floor(SEGMENT / blocks / UNIT) * UNIT);
  return sizes;
})();

/** Class of each length up to MAX_BLOCK. */
const classOf = Uint8Array.from({ length: MAX_BLOCK + 1 }, (_, length) =>
  CLASS_SIZES.findIndex((size) => size >= length),
);

const SEGMENT_UNITS = SEGMENT / UNIT;
/** Bitmap words of a segment: enough for its smallest blocks. */
const BITMAP_WORDS = SEGMENT / CLASS_SIZES[0] / 32;
const NO_CLASS = 255;
const NONE = -1;
/** Whether a segment without blocks still has its memory: staging fills and empties as windows come and go. */
const Vacancy = { NO: 0, EMPTY: 1, HOLE: 2 } as const;
/**
 * Segments given back at a time, 1 MiB. A punch costs some 0.4 ms on a virtual machine whatever its length, and faults
 * of sandboxes wait for it.
 */
const RUN_SEGMENTS = 16;
/** Its blocks are pages of the file, so that single ones can go back to the kernel. */
const PAGE_CLASS = CLASS_SIZES.indexOf(4096);

/** Bytes a length takes in the arena. */
export const blockBytes = (length: number): number => (length === 0 ? 0 : CLASS_SIZES[classOf[length]]);

/**
 * Allocator of page data: segments of 64 KiB, each cut into blocks of one size. Its state lives outside the memory
 * file and is rebuilt from the objects after a restart, so nothing in it needs to survive a crash.
 */
export class Arena {
  private readonly segments: number;
  private readonly segmentClass: Uint8Array;
  private readonly freeBlocks: Uint16Array;
  private readonly bitmap: Uint32Array;
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  /** First segment with a free block, by class. */
  private readonly partial = new Int32Array(CLASS_SIZES.length).fill(NONE);
  /** Free blocks of partial segments, by class. */
  private readonly freeInClass = new Float64Array(CLASS_SIZES.length);
  private readonly vacancy: Uint8Array;
  /** Segments that are empty, the last emptied first. */
  private empty = NONE;
  private lastEmpty = NONE;
  private highSegment = 0;
  /** Released segments below highSegment: holes in the file. */
  private holes = NONE;
  private inUse = 0;
  /** 1 when the free pages of a segment of whole pages are holes. */
  private readonly sparse: Uint8Array;

  /** `fd` and `fileOffset`: where to punch; `address`: where it is mapped; `bytes`: size of the arena. */
  constructor(
    private readonly fd: number,
    private readonly fileOffset: number,
    private readonly address: number,
    bytes: number,
  ) {
    this.segments = Math.floor(bytes / SEGMENT);
    this.segmentClass = new Uint8Array(this.segments).fill(NO_CLASS);
    this.sparse = new Uint8Array(this.segments).fill(1);
    this.vacancy = new Uint8Array(this.segments);
    this.freeBlocks = new Uint16Array(this.segments);
    this.bitmap = reserveWords(this.segments * BITMAP_WORDS);
    this.next = new Int32Array(this.segments);
    this.previous = new Int32Array(this.segments);
  }

  /** Bytes of blocks handed out. */
  get usedBytes(): number {
    return this.inUse;
  }

  /** Offset in 16-byte units of a block for `length` bytes (1 to MAX_BLOCK), or -1 when the arena is full. */
  allocate(length: number): number {
    const sizeClass = classOf[length];
    let segment = this.partial[sizeClass];
    if (segment === NONE) {
      segment = this.takeSegment();
      if (segment === NONE) return -1;
      this.open(segment, sizeClass);
    }
    const block = this.takeBlock(segment);
    this.freeInClass[sizeClass]--;
    if (--this.freeBlocks[segment] === 0) this.unlink(segment, sizeClass);
    this.inUse += CLASS_SIZES[sizeClass];
    return segment * SEGMENT_UNITS + (block * CLASS_SIZES[sizeClass]) / UNIT;
  }

  /** What the block held is wiped: its next owner may be another tenant's. */
  free(unit: number, length: number): void {
    memset(this.address + unit * UNIT, 0, length);
    const sizeClass = classOf[length];
    const segment = Math.floor(unit / SEGMENT_UNITS);
    const block = ((unit % SEGMENT_UNITS) * UNIT) / CLASS_SIZES[sizeClass];
    this.bitmap[segment * BITMAP_WORDS + (block >> 5)] |= 1 << (block & 31);
    if (this.freeBlocks[segment]++ === 0) this.link(segment, sizeClass);
    this.freeInClass[sizeClass]++;
    if (sizeClass === PAGE_CLASS) this.sparse[segment] = 0;
    this.inUse -= CLASS_SIZES[sizeClass];
    if (this.freeBlocks[segment] === blocksOf(sizeClass)) {
      this.freeInClass[sizeClass] -= blocksOf(sizeClass);
      this.unlink(segment, sizeClass);
      this.segmentClass[segment] = NO_CLASS;
      this.sparse[segment] = 1;
      this.addEmpty(segment);
    }
  }

  /** Marks a block as taken while a store is rebuilt; call `finishRecovery` after the last. */
  reserve(unit: number, length: number): void {
    const sizeClass = classOf[length];
    const segment = Math.floor(unit / SEGMENT_UNITS);
    if (segment >= this.highSegment) this.highSegment = segment + 1;
    if (this.segmentClass[segment] === NO_CLASS) this.open(segment, sizeClass);
    const block = ((unit % SEGMENT_UNITS) * UNIT) / CLASS_SIZES[sizeClass];
    this.bitmap[segment * BITMAP_WORDS + (block >> 5)] &= ~(1 << (block & 31));
    this.freeInClass[sizeClass]--;
    if (--this.freeBlocks[segment] === 0) this.unlink(segment, sizeClass);
    this.inUse += CLASS_SIZES[sizeClass];
  }

  finishRecovery(): void {
    for (let segment = 0; segment < this.highSegment; segment++) {
      if (this.segmentClass[segment] === NO_CLASS) this.addEmpty(segment);
    }
    while (this.empty !== NONE) this.punchRun(this.empty, this.segments);
    // What a crash left above the last segment in use.
    const tail = this.highSegment * SEGMENT;
    if (tail < this.segments * SEGMENT)
      punchHole(this.fd, this.fileOffset + tail, this.segments * SEGMENT - tail);
  }

  /**
   * Gives memory back that is no longer needed, with at most `punches` system calls: runs of empty segments, and the
   * free pages of segments that a few raw pages keep in use. Looks at `limit` of the latter. Returns how many system
   * calls it took; 0: nothing was left.
   */
  trim(punches: number, limit: number): number {
    let left = punches;
    for (; left > 0 && this.lastEmpty !== NONE; left--) this.punchRun(this.lastEmpty, RUN_SEGMENTS);
    let segment = this.partial[PAGE_CLASS];
    for (let looked = 0; segment !== NONE && looked < limit && left > 0; looked++) {
      if (this.sparse[segment] === 0) left -= this.punchFreePages(segment);
      segment = this.next[segment];
    }
    return punches - left;
  }

  /**
   * A better place for a block, or -1 when it sits well: its segment is at least a quarter empty, and the others of its
   * class have room for all that is left in it. The caller copies, then frees the old block.
   */
  relocate(unit: number, length: number): number {
    const sizeClass = classOf[length];
    const segment = Math.floor(unit / SEGMENT_UNITS);
    const blocks = blocksOf(sizeClass);
    const free = this.freeBlocks[segment];
    if (sizeClass === PAGE_CLASS || free * 4 < blocks) return -1;
    if (this.freeInClass[sizeClass] - free < blocks - free) return -1;
    this.unlink(segment, sizeClass);
    const target = this.allocate(length);
    this.linkLast(segment, sizeClass);
    return target;
  }

  private takeSegment(): number {
    let segment = this.empty;
    if (segment !== NONE) this.removeEmpty(segment);
    else if (this.holes !== NONE) {
      segment = this.holes;
      this.holes = this.next[segment];
    } else segment = this.highSegment < this.segments ? this.highSegment++ : NONE;
    if (segment !== NONE) this.vacancy[segment] = Vacancy.NO;
    return segment;
  }

  private addEmpty(segment: number): void {
    this.vacancy[segment] = Vacancy.EMPTY;
    this.next[segment] = this.empty;
    this.previous[segment] = NONE;
    if (this.empty === NONE) this.lastEmpty = segment;
    else this.previous[this.empty] = segment;
    this.empty = segment;
  }

  private removeEmpty(segment: number): void {
    const before = this.previous[segment];
    const after = this.next[segment];
    if (before === NONE) this.empty = after;
    else this.next[before] = after;
    if (after === NONE) this.lastEmpty = before;
    else this.previous[after] = before;
  }

  /** Gives the free pages of a segment back, run by run; returns in how many. */
  private punchFreePages(segment: number): number {
    const free = this.bitmap[segment * BITMAP_WORDS];
    let runs = 0;
    for (let block = 0; block < blocksOf(PAGE_CLASS); block++) {
      const first = block;
      while ((free & (1 << block)) !== 0) block++;
      if (block === first) continue;
      punchHole(this.fd, this.fileOffset + segment * SEGMENT + first * 4096, (block - first) * 4096);
      runs++;
    }
    this.sparse[segment] = 1;
    return runs;
  }

  /** Gives an empty segment and its empty neighbours back, at most `limit` of them. */
  private punchRun(segment: number, limit: number): void {
    const isEmpty = (at: number): boolean => this.vacancy[at] === Vacancy.EMPTY;
    let from = segment;
    let to = segment + 1;
    while (to - from < limit && from > 0 && isEmpty(from - 1)) from--;
    while (to - from < limit && to < this.segments && isEmpty(to)) to++;
    punchHole(this.fd, this.fileOffset + from * SEGMENT, (to - from) * SEGMENT);
    for (let at = from; at < to; at++) {
      this.removeEmpty(at);
      this.vacancy[at] = Vacancy.HOLE;
      this.next[at] = this.holes;
      this.holes = at;
    }
  }

  private open(segment: number, sizeClass: number): void {
    const blocks = blocksOf(sizeClass);
    this.segmentClass[segment] = sizeClass;
    this.freeBlocks[segment] = blocks;
    this.freeInClass[sizeClass] += blocks;
    for (let word = 0; word < BITMAP_WORDS; word++) {
      const left = blocks - word * 32;
      this.bitmap[segment * BITMAP_WORDS + word] = left >= 32 ? 0xffffffff : left > 0 ? 2 ** left - 1 : 0;
    }
    this.link(segment, sizeClass);
  }

  private takeBlock(segment: number): number {
    for (let at = segment * BITMAP_WORDS, word = 0; word < BITMAP_WORDS; word++) {
      const bits = this.bitmap[at + word];
      if (bits === 0) continue;
      const bit = 31 - Math.clz32(bits & -bits);
      this.bitmap[at + word] = bits & (bits - 1);
      return word * 32 + bit;
    }
    throw new Error(`segment ${segment} is listed as partial but has no free block`);
  }

  private link(segment: number, sizeClass: number): void {
    const head = this.partial[sizeClass];
    this.next[segment] = head;
    this.previous[segment] = NONE;
    if (head !== NONE) this.previous[head] = segment;
    this.partial[sizeClass] = segment;
  }

  /** Links a segment where it is taken last. */
  private linkLast(segment: number, sizeClass: number): void {
    let last = this.partial[sizeClass];
    if (last === NONE) return this.link(segment, sizeClass);
    while (this.next[last] !== NONE) last = this.next[last];
    this.next[last] = segment;
    this.previous[segment] = last;
    this.next[segment] = NONE;
  }

  private unlink(segment: number, sizeClass: number): void {
    const before = this.previous[segment];
    const after = this.next[segment];
    if (before === NONE) this.partial[sizeClass] = after;
    else this.next[before] = after;
    if (after !== NONE) this.previous[after] = before;
  }
}

const blocksOf = (sizeClass: number): number => Math.floor(SEGMENT / CLASS_SIZES[sizeClass]);
