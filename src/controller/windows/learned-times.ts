/** Times remembered of one kind, and how many say enough. Of two, the one that is so many places older counts half. */
const REMEMBERED = 64;
const ENOUGH = 4;
const HALF_LIFE = 16;
/** Kinds remembered; those that were not met for longest are forgotten first. Half a KiB each. */
const MOST_KINDS = 4096;

/**
 * How long things take, learnt from how long they took: quantiles by kind, of which late times count more. A time is
 * noted under several kinds, from the most special to the most general, so that what is not known of a sandbox is
 * taken from its like.
 */
export class LearnedTimes {
  /** By kind, the latest last; kinds in the order in which they were last met. */
  private readonly kinds = new Map<string, number[]>();

  /** It took `ms`, which tells something of each of `kinds`. */
  note(kinds: readonly string[], ms: number): void {
    for (const kind of new Set(kinds)) {
      const times = this.kinds.get(kind) ?? [];
      times.push(ms);
      if (times.length > REMEMBERED) times.shift();
      this.kinds.delete(kind);
      this.kinds.set(kind, times);
    }
    for (const kind of this.kinds.keys()) {
      if (this.kinds.size <= MOST_KINDS) break;
      this.kinds.delete(kind);
    }
  }

  /** What so great a share (0 to 1) stayed at or below, ms, of the first of `kinds` of which enough is known; null: of none. */
  quantile(kinds: readonly string[], share: number): number | null {
    for (const kind of kinds) {
      const times = this.kinds.get(kind);
      if (times !== undefined && times.length >= ENOUGH) return weightedQuantile(times, share);
    }
    return null;
  }
}

function weightedQuantile(times: readonly number[], share: number): number {
  const weighted = times.map((ms, i) => ({ ms, weight: 2 ** ((i - times.length + 1) / HALF_LIFE) }));
  weighted.sort((a, b) => a.ms - b.ms);
  let left = share * weighted.reduce((sum, { weight }) => sum + weight, 0);
  for (const { ms, weight } of weighted) {
    left -= weight;
    if (left <= 0) return ms;
  }
  return weighted[weighted.length - 1].ms;
}
