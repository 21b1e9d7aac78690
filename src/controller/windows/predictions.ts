import { LearnedTimes } from './learned-times.js';
import type { Sandbox } from '../sandboxes/sandbox.js';

/** Half of the waits last at least as long as is said; whether a window pays is asked of the shorter quarter. */
const MEDIAN = 0.5;
const LOW = 0.25;
/** A stream is shorter than expected about this often: its prefetch then starts when its end is reported. */
const STREAM_RISK = 0.1;

type Whose = Pick<Sandbox, 'id' | 'domain'>;

/** A sandbox of the same trust domain (template and tenant) works at the same kind of task with the same model. */
const kindsOf = ({ id, domain }: Whose): string[] => [`sandbox ${id}`, `domain ${domain}`];

/**
 * What a wait tells of, the most special first: sandbox, then its like, with this model endpoint; both with any; the
 * endpoint, whoever asks it; all waits of this host.
 */
function waitKinds(whose: Whose, model = ''): string[] {
  const kinds = kindsOf(whose);
  return [...kinds.map((kind) => `${kind} model ${model}`), ...kinds, `model ${model}`, 'all'];
}

/** What is expected of waits, streams and windows, learnt online from those that were. Times in ms. */
export class Predictions {
  private readonly waits = new LearnedTimes();
  private readonly streams = new LearnedTimes();
  private readonly costs = new LearnedTimes();

  /** A wait for the model has ended, whether there was a window in it or not. */
  waited(whose: Whose, model: string | undefined, ms: number): void {
    this.waits.note(waitKinds(whose, model), ms);
  }

  /** A wait that begins now: what half of those like it last, and the shorter quarter; null while too few are known. */
  wait(whose: Whose, model: string | undefined): { medianMs: number | null; lowMs: number | null } {
    const kinds = waitKinds(whose, model);
    return { medianMs: this.waits.quantile(kinds, MEDIAN), lowMs: this.waits.quantile(kinds, LOW) };
  }

  /** The model has streamed an answer. */
  streamed(whose: Whose, ms: number): void {
    this.streams.note(kindsOf(whose), ms);
  }

  /** What nine in ten streams last at least; 0 while too few are known. */
  streamAtLeast(whose: Whose): number {
    return this.streams.quantile(kindsOf(whose), STREAM_RISK) ?? 0;
  }

  /** A window has cost so much: paging out, and putting back what was used after it. */
  paid(whose: Whose, ms: number): void {
    this.costs.note(kindsOf(whose), ms);
  }

  /** What a window costs as a rule; null while too few are known. */
  windowCost(whose: Whose): number | null {
    return this.costs.quantile(kindsOf(whose), MEDIAN);
  }
}
