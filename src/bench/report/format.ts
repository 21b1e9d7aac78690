import type { Spread } from '../stats.js';
import { html, type Markup } from './markup.js';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** A number for people. Bytes, milliseconds and so on are turned into the unit that the text names; NaN is a dash. */
export type Format = (value: number) => string;

/** NaN becomes null in JSON: both say that there is no figure. */
export const isFigure = (value: unknown): value is number => Number.isFinite(value);
const NONE = '–';
const format =
  (text: Format): Format =>
  (value) =>
    isFigure(value) ? text(value) : NONE;

/** `digits` decimals, thousands apart by narrow no-break spaces. */
function decimal(value: number, digits: number): string {
  const [whole, fraction] = value.toFixed(digits).split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** Fewer decimals the greater the number: about three digits that count. */
const graded = (value: number): string =>
  decimal(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 || value === 0 ? 2 : 3);

export const times = format((value) => `${decimal(value, value >= 99.5 ? 0 : value >= 9.995 ? 1 : 2)}x`);
export const mib = format((bytes) => `${decimal(bytes / MIB, 1)} MiB`);
export const gib = format((bytes) => `${decimal(bytes / GIB, 1)} GiB`);
export const ms = format((value) => `${graded(value)} ms`);
export const seconds = format((value) => `${graded(value)} s`);
export const msAsSeconds = format((value) => `${decimal(value / 1000, 1)} s`);
export const percent = format((share) => `${decimal(100 * share, 1)} %`);
export const count = format((value) => decimal(value, Number.isInteger(value) ? 0 : 1));
export const plain = format(String);

/** A figure that keeps its exact value for whoever reads the page by program; a dash where there is none. */
export function figure(value: number | null | undefined, format: Format): Markup {
  if (!isFigure(value)) return html`<span class="nil">${NONE}</span>`;
  return html`<data value="${value}">${format(value)}</data>`;
}

/** The median, and after it the range of the runs, in the same unit, when they differ. */
export function spreadFigure(value: Spread | null | undefined, runs: number, format: Format): Markup {
  const median = figure(value?.median, format);
  if (!value || runs < 2 || !isFigure(value.median) || value.min === value.max) return median;
  const bare: Format = (number) => format(number).replace(/[^\d]+$/, '');
  return html`${median} <small>${figure(value.min, bare)}–${figure(value.max, bare)}</small>`;
}

/** `one`, `one and two`, `one, two and three`. */
export function listed(names: readonly string[]): string {
  if (names.length < 2) return names.join('');
  return `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}`;
}
