import { PAGE } from '../../native/libc.js';
import { quantile } from '../stats.js';
import type { PageOut } from './pageout.js';
import type { Faults } from './subject.js';

const MB = 1e6;

/** What one round measured of one system; the names are those of micro.schema.json. */
export type Round = Record<string, number>;

/** MB/s of pages in so many seconds. */
export const rate = (pages: number, seconds: number): number => (pages * PAGE) / MB / seconds;

/** Quantiles of faults under names that begin with `name`. */
export function faultFigures(name: string, { us }: Faults): Round {
  return {
    [`${name}P50Us`]: quantile(us, 0.5),
    [`${name}P90Us`]: quantile(us, 0.9),
    [`${name}P99Us`]: quantile(us, 0.99),
  };
}

export const pageOutFigures = (name: string, { unreleased, released }: PageOut): Round => ({
  [`${name}MBps`]: rate(released.pages, released.seconds),
  [`${name}UnreleasedMBps`]: rate(unreleased.pages, unreleased.seconds),
});
