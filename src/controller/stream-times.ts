/** Streams remembered of one kind of sandbox, and how many say enough. */
const REMEMBERED = 64;
const ENOUGH = 4;
const MOST_DOMAINS = 1024;
/** A stream is shorter than expected about this often: its prefetch then starts when its end is reported. */
const RISK = 0.1;

/**
 * How long the model streams before a tool starts, learnt from what was. A sandbox of the same trust domain works at
 * the same kind of task with the same model, so its streams count too.
 */
export class StreamTimes {
  private readonly times = new Map<string, number[]>();

  /** A stream of `ms` has ended. */
  note(domain: string, ms: number): void {
    let times = this.times.get(domain);
    if (times === undefined) {
      const [oldest] = this.times.keys();
      if (this.times.size === MOST_DOMAINS) this.times.delete(oldest);
      this.times.set(domain, (times = []));
    }
    times.push(ms);
    if (times.length > REMEMBERED) times.shift();
  }

  /** What nine in ten streams last at least, ms; 0 while too few are known. */
  atLeast(domain: string): number {
    const times = this.times.get(domain) ?? [];
    if (times.length < ENOUGH) return 0;
    const sorted = times.toSorted((a, b) => a - b);
    return sorted[Math.floor(RISK * sorted.length)];
  }
}
