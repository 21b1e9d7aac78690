const BUCKET_BITS = 15;
/** Places of one bucket: the entry that knows least makes room. */
const WAYS = 4;
/** With 12 bytes each a table takes 1.5 MiB. */
const ENTRIES = WAYS << BUCKET_BITS;
/** Weight of what an entry knew, each time a phase adds to it. */
const DECAY = 0.9;
/** Whatever is not known yet is used now and then. */
const PRIOR_USED = 0.2;
const PRIOR_ALL = 0.5;
/** What others of its bucket keep when an entry makes room, so that what nobody adds to any more goes in the end. */
const CROWDED = 0.98;

/** Columns of a table, as they are kept in a file. */
export interface Columns {
  checks: Uint16Array;
  phases: Uint16Array;
  used: Float32Array;
  unused: Float32Array;
}

/**
 * How often pages were used in each of many contexts, in memory of a fixed size. A context is a 32-bit hash; one that has
 * lost its place to another is unknown again. What is old fades as new things are learnt.
 */
export class UseTable {
  /** Of the phase that adds now; 0 marks an entry that is free. */
  private phase = 1;

  constructor(
    readonly columns: Columns = {
      checks: new Uint16Array(ENTRIES),
      phases: new Uint16Array(ENTRIES),
      used: new Float32Array(ENTRIES),
      unused: new Float32Array(ENTRIES),
    },
  ) {}

  /** What is added from now on is of another phase. */
  nextPhase(): void {
    this.phase = (this.phase % 0xffff) + 1;
  }

  /** Entry of a context, or -1. */
  find(context: number): number {
    const { checks, phases } = this.columns;
    const first = bucketOf(context);
    const check = context & 0xffff;
    for (let at = first; at < first + WAYS; at++) if (phases[at] !== 0 && checks[at] === check) return at;
    return -1;
  }

  /** Chance that a page of the entry's context is used, between 0 and 1. */
  chance(at: number): number {
    const { used, unused } = this.columns;
    return (used[at] + PRIOR_USED) / (used[at] + unused[at] + PRIOR_ALL);
  }

  /** Observations that the entry stands for; the older, the less they count. */
  weight(at: number): number {
    const { used, unused } = this.columns;
    return used[at] + unused[at];
  }

  /** Adds `weight` observations of a page that was used, or was not. */
  add(context: number, wasUsed: boolean, weight: number): void {
    const { phases, used, unused } = this.columns;
    let at = this.find(context);
    if (at < 0) at = this.claim(context);
    else if (phases[at] !== this.phase) {
      phases[at] = this.phase;
      used[at] *= DECAY;
      unused[at] *= DECAY;
    }
    (wasUsed ? used : unused)[at] += weight;
  }

  /** Takes the place of the entry of the bucket that knows least. */
  private claim(context: number): number {
    const { checks, phases, used, unused } = this.columns;
    const first = bucketOf(context);
    let least = first;
    for (let at = first; at < first + WAYS && phases[least] !== 0; at++) {
      used[at] *= CROWDED;
      unused[at] *= CROWDED;
      if (phases[at] === 0 || this.weight(at) < this.weight(least)) least = at;
    }
    checks[least] = context & 0xffff;
    phases[least] = this.phase;
    used[least] = unused[least] = 0;
    return least;
  }
}

/** The upper bits choose the bucket, the lower ones are the check. */
const bucketOf = (context: number): number => (context >>> (32 - BUCKET_BITS)) * WAYS;
