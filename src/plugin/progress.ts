import { duration } from './watch/format.js';

/** Rates are of the last seconds: a drain gets slower towards its end. */
const WINDOW_MS = 5_000;
const BAR = 20;

export interface Progress {
  done: number;
  total: number;
  /** Units a second, of late; null: too early to say. */
  perS: number | null;
  leftMs: number | null;
}

/** How far a job of known size is, and how fast of late. */
export class ProgressMeter {
  private readonly marks: { at: number; done: number }[] = [];
  private total = 0;

  /** `total` may grow: then so much more is to be done. */
  note(at: number, done: number, total: number): Progress {
    this.total = Math.max(this.total, total, done);
    this.marks.push({ at, done });
    while (this.marks.length > 2 && this.marks[1].at <= at - WINDOW_MS) this.marks.shift();
    const [first] = this.marks;
    const perS = at > first.at ? ((done - first.done) * 1000) / (at - first.at) : null;
    const left = this.total - done;
    const leftMs = perS !== null && perS > 0 ? (left * 1000) / perS : null;
    return { done, total: this.total, perS, leftMs };
  }
}

/** `[=====...............]  25%, 1.5 GiB left of 2.0 GiB, 310 MiB/s, 5.0s`; `amount` writes a number with its unit. */
export function progressText(
  { done, total, perS, leftMs }: Progress,
  amount: (value: number) => string,
): string {
  const share = total > 0 ? done / total : 1;
  const bar = '='.repeat(Math.floor(BAR * share)).padEnd(BAR, '.');
  const parts = [
    `[${bar}] ${String(Math.floor(100 * share)).padStart(3)}%, ${amount(total - done)} left of ${amount(total)}`,
    ...(perS === null ? [] : [`${amount(Math.max(0, Math.round(perS)))}/s`]),
    ...(leftMs === null ? [] : [duration(leftMs)]),
  ];
  return parts.join(', ');
}
