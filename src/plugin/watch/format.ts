/** Figures as people read them; `-` for what is not known. */

const KIB = 1024;
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Three digits and a unit: `512 KiB`, `1.50 GiB`. */
export function bytes(value: number): string {
  let unit = 0;
  let amount = value;
  while (amount >= 999.5 && unit < UNITS.length - 1) {
    amount /= KIB;
    unit++;
  }
  const digits = unit === 0 || amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
  return `${amount.toFixed(digits)} ${UNITS[unit]}`;
}

/** The same in a column of seven: `512K`, `1.50G`. */
export const shortBytes = (value: number): string => bytes(value).replace(/ (.?)i?B$/, '$1');

/** In MiB, without the unit: `0.4`, `1536.0`. */
export const mib = (value: number): string => (value / KIB ** 2).toFixed(1);

export const times = (value: number | null): string =>
  value === null ? '-' : `${value >= 99.95 ? Math.round(value) : value.toFixed(1)}x`;

/** A share from 0 to 1 as percent. */
export const percent = (share: number | null): string =>
  share === null ? '-' : `${Math.round(share * 100)}%`;

/** Events a second. */
export const perSecond = (rate: number | null): string =>
  rate === null ? '-' : rate >= 9.95 || rate === 0 ? String(Math.round(rate)) : rate.toFixed(1);

/** A span of time, at most five wide: `0.4s`, `42s`, `12m`, `3h`, `9d`. */
export function duration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`;
  if (seconds < 99.5) return `${Math.round(seconds)}s`;
  if (seconds < 99.5 * 60) return `${Math.round(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)}h`;
  return `${Math.round(seconds / 86_400)}d`;
}
