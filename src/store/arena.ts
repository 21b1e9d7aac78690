import { punchHole } from '../native/files.js';
import { PAGE } from '../native/libc.js';
import { memset, populate, reserveWords } from '../native/memory.js';
import { SEGMENT } from './layout.js';
import { blocksOf, CLASS_SIZES, classOf, PAGE_CLASS, UNIT } from './size-classes.js';
import { Vacancies } from './vacancies.js';

const SEGMENT_UNITS = SEGMENT / UNIT;
const SEGMENT_PAGES = SEGMENT / PAGE;
/** Bitmap words of a segment: enough for its smallest blocks. */
const BITMAP_WORDS = SEGMENT / CLASS_SIZES[0] / 32;
const NO_CLASS = 255;
const NONE = -1;
const ALL_PAGES = 2 ** SEGMENT_PAGES - 1;
/** Free pages side by side that are worth a system call, where blocks are smaller than a page: the next block may need them. */
const LEAST_PAGES = 2;
/** Turns of housekeeping, of 50 ms each, in which nothing of a segment of pages was freed. */
const QUIET_TURNS = 1;

/**
 * Allocator of page data: segments of 64 KiB, each cut into blocks of one size. Its state lives outside the memory
 * file and is rebuilt from the objects after a restart, so nothing in it needs to survive a crash.
 *
 * However many are freed, a class comes to rest with one segment that is not full, its sink: blocks leave it for free ones of
 * other segments, and move together at its beginning, so that the pages behind them go back to the kernel.
 */
export class Arena {
  private readonly segmentClass: Uint8Array;
  private readonly freeBlocks: Uint16Array;
  private readonly bitmap: Uint32Array;
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  /** First and last segment with a free block, by class. */
  private readonly partial = new Int32Array(CLASS_SIZES.length).fill(NONE);
  private readonly lastPartial = new Int32Array(CLASS_SIZES.length).fill(NONE);
  /** The one that is to stay partial. */
  private readonly sink = new Int32Array(CLASS_SIZES.length).fill(NONE);
  /** Free blocks of partial segments, by class. */
  private readonly freeInClass = new Float64Array(CLASS_SIZES.length);
  /** Which pages of a segment are holes in the file, the lowest bit for the first. */
  private readonly holes: Uint16Array;
  /** Turn in which a block of the segment was freed last; 0 when its free pages have been looked at since. */
  private readonly freedIn: Uint32Array;
  private turn = 1;
  private readonly vacancies: Vacancies;
  /** Empty segments that are to have memory for blocks to come. */
  headroom = 0;
  /** Class whose sink was looked at last. */
  private lastSink = 0;
  private inUse = 0;

  /** `fd` and `fileOffset`: where to punch; `address`: where it is mapped; `bytes`: size of the arena. */
  constructor(
    private readonly fd: number,
    private readonly fileOffset: number,
    private readonly address: number,
    bytes: number,
  ) {
    const segments = Math.floor(bytes / SEGMENT);
    this.segmentClass = new Uint8Array(segments).fill(NO_CLASS);
    this.freedIn = new Uint32Array(segments);
    this.holes = new Uint16Array(segments);
    this.freeBlocks = new Uint16Array(segments);
    this.bitmap = reserveWords(segments * BITMAP_WORDS);
    this.next = new Int32Array(segments);
    this.previous = new Int32Array(segments);
    this.vacancies = new Vacancies(
      segments,
      (segment, count) => punchHole(fd, fileOffset + segment * SEGMENT, count * SEGMENT),
      (segment) => populate(address + segment * SEGMENT, SEGMENT),
    );
  }

  /** Bytes of blocks handed out. */
  get usedBytes(): number {
    return this.inUse;
  }

  /** Offset in 16-byte units of a block for `length` bytes (1 to MAX_BLOCK), or -1 when the arena is full. */
  allocate(length: number): number {
    const sizeClass = classOf[length];
    const partial = this.partial[sizeClass];
    if (partial === NONE || (this.vacancies.ready > 0 && this.wantsMemory(partial, sizeClass))) {
      const holes = this.vacancies.ready > 0 ? 0 : ALL_PAGES;
      const segment = this.vacancies.take();
      if (segment === NONE) return -1;
      this.open(segment, sizeClass, holes);
    }
    return this.takeFrom(this.partial[sizeClass], sizeClass);
  }

  /** Has it less headroom than it should? */
  get isUnprepared(): boolean {
    return this.vacancies.ready < this.headroom;
  }

  /** Is more than half of the headroom used up? */
  get isScarce(): boolean {
    return 2 * this.vacancies.ready < this.headroom;
  }

  /** Lets one more segment have memory before a block needs it; false when all have. */
  prepare(): boolean {
    return this.vacancies.prepare();
  }

  /** What the block held is wiped: its next owner may be another tenant's. */
  free(unit: number, length: number): void {
    memset(this.address + unit * UNIT, 0, length);
    const sizeClass = classOf[length];
    const segment = segmentOf(unit);
    const block = blockIn(unit, sizeClass);
    this.bitmap[segment * BITMAP_WORDS + (block >> 5)] |= 1 << (block & 31);
    if (this.freeBlocks[segment]++ === 0) this.link(segment, sizeClass);
    else if (sizeClass === PAGE_CLASS && this.freedIn[segment] === 0) {
      // What `trim` is to look at comes first.
      this.unlink(segment, sizeClass);
      this.link(segment, sizeClass);
    }
    this.freeInClass[sizeClass]++;
    this.freedIn[segment] = this.turn;
    this.inUse -= CLASS_SIZES[sizeClass];
    if (this.freeBlocks[segment] === blocksOf(sizeClass)) this.close(segment, sizeClass);
  }

  /** Marks a block as taken while a store is rebuilt; call `finishRecovery` after the last. */
  reserve(unit: number, length: number): void {
    const sizeClass = classOf[length];
    const segment = segmentOf(unit);
    if (segment >= this.vacancies.high) this.vacancies.high = segment + 1;
    if (this.segmentClass[segment] === NO_CLASS) this.open(segment, sizeClass, 0);
    const block = blockIn(unit, sizeClass);
    this.bitmap[segment * BITMAP_WORDS + (block >> 5)] &= ~(1 << (block & 31));
    this.freeInClass[sizeClass]--;
    if (--this.freeBlocks[segment] === 0) this.unlink(segment, sizeClass);
    this.inUse += CLASS_SIZES[sizeClass];
  }

  finishRecovery(): void {
    for (let segment = 0; segment < this.vacancies.high; segment++) {
      if (this.segmentClass[segment] === NO_CLASS) this.vacancies.add(segment);
    }
    this.vacancies.clear();
  }

  /** Begins another turn of housekeeping. */
  age(): void {
    this.turn++;
  }

  /**
   * Gives memory back that is no longer needed, with at most `punches` system calls or a few more: runs of empty segments, the free
   * pages of segments that a few raw pages keep in use, and those of one sink, another each time. Looks at `limit` of the raw
   * ones. Returns how many system calls it took; 0: nothing was left for now.
   */
  trim(punches: number, limit: number): number {
    let left = punches;
    while (left > 0 && this.vacancies.trim(this.headroom)) left--;
    // The next blocks are better off with these.
    if (this.headroom > 0) return punches - left;
    let segment = this.partial[PAGE_CLASS];
    for (let looked = 0; left > 0 && looked < limit && segment !== NONE; looked++) {
      if (this.freedIn[segment] === 0) break;
      const next = this.next[segment];
      // While a window's pages are refined they go one by one, and soon the segment is empty.
      if (this.turn - this.freedIn[segment] > QUIET_TURNS) {
        left -= this.punchFreePages(segment, PAGE_CLASS);
        this.unlink(segment, PAGE_CLASS);
        this.linkLast(segment, PAGE_CLASS);
      }
      segment = next;
    }
    this.lastSink = (this.lastSink + 1) % CLASS_SIZES.length;
    const sink = this.sink[this.lastSink];
    if (sink !== NONE && left > 0) left -= this.punchFreePages(sink, this.lastSink);
    return punches - left;
  }

  /**
   * A better place for a block, or -1 when it sits well. It does not in its class's sink, nor in a segment of which a quarter is free,
   * when the others have room for all that is left in it. The caller copies, then frees the old block.
   */
  relocate(unit: number, length: number): number {
    const sizeClass = classOf[length];
    const segment = segmentOf(unit);
    const free = this.freeBlocks[segment];
    if (sizeClass === PAGE_CLASS || free === 0) return -1;
    const isSink = this.electSink(segment, sizeClass);
    const used = blocksOf(sizeClass) - free;
    const elsewhere = this.freeInClass[sizeClass] - free;
    // Beyond as many blocks as are in use: then one below is free.
    if (elsewhere === 0) return blockIn(unit, sizeClass) < used ? -1 : this.takeReady(segment, sizeClass);
    const head = this.partial[sizeClass];
    const target = head === segment ? this.next[segment] : head;
    // Never to an emptier one, whose blocks would come back here.
    const isEmptied = free * 4 >= used + free && elsewhere >= used && this.freeBlocks[target] < free;
    return isEmptied || isSink ? this.takeReady(target, sizeClass) : -1;
  }

  /** The same as `takeFrom`, or -1 when the block would want memory. */
  private takeReady(segment: number, sizeClass: number): number {
    return this.wantsMemory(segment, sizeClass) ? -1 : this.takeFrom(segment, sizeClass);
  }

  /** Makes a partial segment the class's sink, the last that blocks are taken from, when it is emptier. Is it the sink now? */
  private electSink(segment: number, sizeClass: number): boolean {
    const known = this.sink[sizeClass];
    if (known === segment) return true;
    if (known !== NONE && this.freeBlocks[segment] <= this.freeBlocks[known]) return false;
    this.unlink(segment, sizeClass);
    this.linkLast(segment, sizeClass);
    this.sink[sizeClass] = segment;
    return true;
  }

  /** Gives the free pages of a segment back, run by run; returns in how many. */
  private punchFreePages(segment: number, sizeClass: number): number {
    if (this.freedIn[segment] === 0) return 0;
    const free = this.freePages(segment, sizeClass) & ~this.holes[segment];
    const least = sizeClass === PAGE_CLASS ? 1 : LEAST_PAGES;
    let runs = 0;
    for (let page = 0; page < SEGMENT_PAGES; page++) {
      const first = page;
      while ((free & (1 << page)) !== 0) page++;
      if (page - first < least) continue;
      punchHole(this.fd, this.fileOffset + segment * SEGMENT + first * PAGE, (page - first) * PAGE);
      this.holes[segment] |= (1 << page) - (1 << first);
      runs++;
    }
    this.freedIn[segment] = 0;
    return runs;
  }

  /** The pages of a segment that no block in use touches, the lowest bit for the first. */
  private freePages(segment: number, sizeClass: number): number {
    let pages = ALL_PAGES;
    for (let block = 0; block < blocksOf(sizeClass); block++) {
      if ((this.bitmap[segment * BITMAP_WORDS + (block >> 5)] & (1 << (block & 31))) === 0)
        pages &= ~pagesOf(block, sizeClass);
    }
    return pages;
  }

  private open(segment: number, sizeClass: number, holes: number): void {
    const blocks = blocksOf(sizeClass);
    this.segmentClass[segment] = sizeClass;
    this.holes[segment] = holes;
    this.freedIn[segment] = this.turn;
    this.freeBlocks[segment] = blocks;
    this.freeInClass[sizeClass] += blocks;
    for (let word = 0; word < BITMAP_WORDS; word++) {
      const left = blocks - word * 32;
      this.bitmap[segment * BITMAP_WORDS + word] = left >= 32 ? 0xffffffff : left > 0 ? 2 ** left - 1 : 0;
    }
    this.link(segment, sizeClass);
  }

  /** The segment's last block is free. */
  private close(segment: number, sizeClass: number): void {
    this.freeInClass[sizeClass] -= this.freeBlocks[segment];
    this.unlink(segment, sizeClass);
    this.segmentClass[segment] = NO_CLASS;
    this.vacancies.add(segment);
  }

  /** The lowest free block of a partial segment, as `allocate` names it. */
  private takeFrom(segment: number, sizeClass: number): number {
    const block = this.lowestFree(segment);
    this.bitmap[segment * BITMAP_WORDS + (block >> 5)] &= ~(1 << (block & 31));
    this.holes[segment] &= ~pagesOf(block, sizeClass);
    this.freeInClass[sizeClass]--;
    if (--this.freeBlocks[segment] === 0) this.unlink(segment, sizeClass);
    this.inUse += CLASS_SIZES[sizeClass];
    return segment * SEGMENT_UNITS + (block * CLASS_SIZES[sizeClass]) / UNIT;
  }

  /** With headroom, which is taken first: would the next block of a partial segment need memory from the kernel? */
  private wantsMemory(segment: number, sizeClass: number): boolean {
    if (this.headroom === 0 || this.holes[segment] === 0) return false;
    return (this.holes[segment] & pagesOf(this.lowestFree(segment), sizeClass)) !== 0;
  }

  private lowestFree(segment: number): number {
    for (let at = segment * BITMAP_WORDS, word = 0; word < BITMAP_WORDS; word++) {
      const bits = this.bitmap[at + word];
      if (bits !== 0) return word * 32 + 31 - Math.clz32(bits & -bits);
    }
    throw new Error(`segment ${segment} is listed as partial but has no free block`);
  }

  private link(segment: number, sizeClass: number): void {
    const head = this.partial[sizeClass];
    this.next[segment] = head;
    this.previous[segment] = NONE;
    if (head === NONE) this.lastPartial[sizeClass] = segment;
    else this.previous[head] = segment;
    this.partial[sizeClass] = segment;
  }

  /** Links a segment where it is taken last. */
  private linkLast(segment: number, sizeClass: number): void {
    const last = this.lastPartial[sizeClass];
    if (last === NONE) return this.link(segment, sizeClass);
    this.next[last] = segment;
    this.previous[segment] = last;
    this.next[segment] = NONE;
    this.lastPartial[sizeClass] = segment;
  }

  private unlink(segment: number, sizeClass: number): void {
    const before = this.previous[segment];
    const after = this.next[segment];
    if (before === NONE) this.partial[sizeClass] = after;
    else this.next[before] = after;
    if (after === NONE) this.lastPartial[sizeClass] = before;
    else this.previous[after] = before;
    if (this.sink[sizeClass] === segment) this.sink[sizeClass] = NONE;
  }
}

const segmentOf = (unit: number): number => Math.floor(unit / SEGMENT_UNITS);

/** Which block of its segment it is. */
const blockIn = (unit: number, sizeClass: number): number =>
  ((unit % SEGMENT_UNITS) * UNIT) / CLASS_SIZES[sizeClass];

/** The pages of its segment that a block touches, the lowest bit for the first. */
function pagesOf(block: number, sizeClass: number): number {
  const from = block * CLASS_SIZES[sizeClass];
  const last = Math.floor((from + CLASS_SIZES[sizeClass] - 1) / PAGE);
  return (2 << last) - (1 << Math.floor(from / PAGE));
}
