const NONE = -1;
/** Whether a segment without blocks still has its memory: staging fills and empties as windows come and go. */
const Vacancy = { NO: 0, EMPTY: 1, HOLE: 2 } as const;
/**
 * Segments given back at a time, 1 MiB. A punch costs some 0.4 ms on a virtual machine whatever its length, and faults
 * of sandboxes wait for it.
 */
const RUN_SEGMENTS = 16;

/** The arena's segments without blocks: which are taken next, and which still have memory that can go back to the kernel. */
export class Vacancies {
  /** One more than the highest segment ever taken: what lies above was never touched. */
  high = 0;
  /** Segments that have memory. */
  ready = 0;
  private readonly state: Uint8Array;
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  /** Those that have memory, the last emptied first. */
  private empty = NONE;
  private lastEmpty = NONE;
  /** Those below `high` that have none. */
  private holes = NONE;

  /** `punch` gives the memory of `count` segments back, from `segment` on; `populate` lets one have its memory. */
  constructor(
    private readonly segments: number,
    private readonly punch: (segment: number, count: number) => void,
    private readonly populate: (segment: number) => void,
  ) {
    this.state = new Uint8Array(segments);
    this.next = new Int32Array(segments);
    this.previous = new Int32Array(segments);
  }

  /** A segment, one with memory if there is one; -1 when none is left. */
  take(): number {
    if (this.empty === NONE) return this.takeHole();
    const segment = this.empty;
    this.remove(segment);
    this.state[segment] = Vacancy.NO;
    return segment;
  }

  /** Lets one more segment have memory before it is needed; false when all have. */
  prepare(): boolean {
    const segment = this.takeHole();
    if (segment === NONE) return false;
    this.populate(segment);
    this.add(segment);
    return true;
  }

  /** The segment has no blocks any more. */
  add(segment: number): void {
    this.state[segment] = Vacancy.EMPTY;
    this.next[segment] = this.empty;
    this.previous[segment] = NONE;
    if (this.empty === NONE) this.lastEmpty = segment;
    else this.previous[this.empty] = segment;
    this.empty = segment;
    this.ready++;
  }

  /** Gives the segment that was emptied longest ago back, with its empty neighbours, but for `keep`; false: there are no more. */
  trim(keep: number): boolean {
    if (this.ready <= keep) return false;
    this.punchRun(this.lastEmpty, Math.min(RUN_SEGMENTS, this.ready - keep));
    return true;
  }

  /** Gives all of them back. */
  clear(): void {
    while (this.empty !== NONE) this.punchRun(this.empty, this.segments);
    // What a crash left above the last segment in use.
    if (this.high < this.segments) this.punch(this.high, this.segments - this.high);
  }

  private takeHole(): number {
    let segment = this.holes;
    if (segment !== NONE) this.holes = this.next[segment];
    else segment = this.high < this.segments ? this.high++ : NONE;
    if (segment !== NONE) this.state[segment] = Vacancy.NO;
    return segment;
  }

  private remove(segment: number): void {
    this.ready--;
    const before = this.previous[segment];
    const after = this.next[segment];
    if (before === NONE) this.empty = after;
    else this.next[before] = after;
    if (after === NONE) this.lastEmpty = before;
    else this.previous[after] = before;
  }

  private punchRun(segment: number, limit: number): void {
    const isEmpty = (at: number): boolean => this.state[at] === Vacancy.EMPTY;
    let from = segment;
    let to = segment + 1;
    while (to - from < limit && from > 0 && isEmpty(from - 1)) from--;
    while (to - from < limit && to < this.segments && isEmpty(to)) to++;
    this.punch(from, to - from);
    for (let at = from; at < to; at++) {
      this.remove(at);
      this.state[at] = Vacancy.HOLE;
      this.next[at] = this.holes;
      this.holes = at;
    }
  }
}
