/** From, to; ms of one clock. */
export type Interval = readonly [from: number, to: number];

/** Time that is in intervals of both lists; within a list they do not overlap. */
export function overlap(a: readonly Interval[], b: readonly Interval[]): number {
  let total = 0;
  for (const [from, to] of a)
    for (const [begin, end] of b) total += Math.max(0, Math.min(to, end) - Math.max(from, begin));
  return total;
}

export const total = (intervals: readonly Interval[]): number =>
  intervals.reduce((sum, [from, to]) => sum + to - from, 0);

/** The phases that one sandbox was said to be in, as they were said. */
export class Timeline {
  private readonly changes: { at: number; phase: string }[] = [];

  constructor(from: number, phase: string) {
    this.changes.push({ at: from, phase });
  }

  change(at: number, phase: string): void {
    this.changes.push({ at, phase });
  }

  /** When it was said to be in a phase, until `end`. */
  within(phase: string, end: number): Interval[] {
    return this.changes.flatMap(({ at, phase: said }, i): Interval[] =>
      said === phase ? [[at, this.changes[i + 1]?.at ?? end]] : [],
    );
  }

  phaseAt(at: number): string {
    return this.changes.findLast((change) => change.at <= at)?.phase ?? this.changes[0].phase;
  }

  /**
   * How long after `at` it was first said that the sandbox is in one of `phases`, before `until`. 0 when that was the
   * phase already; null when it was not said.
   */
  noticed(at: number, until: number, ...phases: string[]): number | null {
    if (phases.includes(this.phaseAt(at))) return 0;
    const found = this.changes.find((change) => change.at > at && phases.includes(change.phase));
    return found === undefined || found.at > until ? null : found.at - at;
  }
}
