import { AgentZipError } from '../../errors.js';
import { bytes, duration, percent, perSecond, times } from '../watch/format.js';
import type { Sample } from '../watch/sample.js';
import { columnOf, phaseName, windowProgress } from './columns.js';
import { KEYS, type Scroll, type View } from './keys.js';
import { filterRows, fit, fitColumns, sortRows, tableRow } from './table.js';

export type Tone = 'title' | 'dim' | 'good' | 'warn' | 'bad' | 'head';

export interface Line {
  text: string;
  tone?: Tone;
}

export interface Size {
  columns: number;
  rows: number;
}

/** What is known: the last sample, and why there is no newer one. */
export interface Scene {
  sample: Sample | null;
  problem: Error | null;
}

/** Below this many rows the head is short, so that some sandboxes can be seen. */
const TALL = 16;
const SHORT_HEAD = 2;

/** As many of the parts, from the first, as fit side by side. */
export function joined(parts: readonly string[], width: number, gap = '  '): string {
  let text = '';
  for (const part of parts.filter((candidate) => candidate !== '')) {
    const longer = text === '' ? part : text + gap + part;
    if (longer.length > width) break;
    text = longer;
  }
  return text === '' ? fit(parts[0] ?? '', width).trimEnd() : text;
}

/** What is wrong with the service, for one line. */
function problemText(problem: Error): string {
  if (!(problem instanceof AgentZipError)) return problem.message;
  return problem.code === 'AZ_NOT_RUNNING'
    ? 'not running, trying again'
    : `${problem.code}: ${problem.message}`;
}

function stateLine(
  { version, enabled, uptimeMs, totals }: Sample,
  problem: Error | null,
  width: number,
): Line {
  const phases = Object.entries(totals.phases).map(
    ([phase, count]) => `${count} ${phaseName(phase as keyof typeof totals.phases)}`,
  );
  const state = problem !== null ? problemText(problem) : enabled ? 'enabled' : 'disabled';
  const boxes = `${totals.sandboxes} sandbox${totals.sandboxes === 1 ? '' : 'es'}`;
  const parts = [`agentzip ${version}`, state, boxes, phases.join(', '), `up ${duration(uptimeMs)}`];
  return { text: joined(parts, width), tone: problem === null ? 'title' : 'bad' };
}

function memoryLine({ totals }: Sample, width: number): Line {
  const { withBytes, withoutBytes, reduction, reductionCharged } = totals;
  return {
    text: joined(
      [
        `memory ${bytes(withBytes)}`,
        `without ${bytes(withoutBytes)}`,
        reduction === null ? '' : times(reduction),
        reductionCharged === null ? '' : `(${times(reductionCharged)} with base)`,
      ],
      width,
    ),
    tone: reduction !== null && reduction > 1 ? 'good' : undefined,
  };
}

function storeLine({ totals, foreignPages, standby }: Sample, width: number): Line {
  const { ownedBytes, poolBytes, warmBytes, storedBytes, baseBytes } = totals;
  return {
    text: joined(
      [
        ...[`owned ${bytes(ownedBytes)}`, `pool ${bytes(poolBytes)}`, `base ${bytes(baseBytes)}`],
        `stored ${bytes(storedBytes)}`,
        warmBytes > 0 ? `warm ${bytes(warmBytes)}` : '',
        foreignPages > 0 ? `foreign ${foreignPages} pages` : '',
        standby ? '' : 'no standby',
      ],
      width,
    ),
  };
}

function hostLine({ host, totals }: Sample, width: number): Line {
  const psi = [host.somePercent, host.fullPercent].map((share) => (share === null ? '-' : share.toFixed(1)));
  return {
    text: joined(
      [
        `host ${bytes(host.availableBytes)} of ${bytes(host.totalBytes)} free`,
        `PSI ${psi.join('/')} %`,
        `prefetch ${percent(totals.accuracy)} used`,
        `faults ${perSecond(totals.faultsPerS)}/s`,
        host.short ? 'SHORT OF MEMORY' : '',
      ],
      width,
    ),
    tone: host.short ? 'warn' : undefined,
  };
}

function alertLine({ alerts }: Sample, width: number): Line[] {
  if (alerts.length === 0) return [];
  const [{ code, message }] = alerts;
  const more = alerts.length > 1 ? ` (+${alerts.length - 1})` : '';
  return [{ text: fit(`ALERT${more} ${code}: ${message}`, width).trimEnd(), tone: 'bad' }];
}

function head(sample: Sample, problem: Error | null, { columns, rows }: Size): Line[] {
  const lines = [
    stateLine(sample, problem, columns),
    memoryLine(sample, columns),
    storeLine(sample, columns),
    hostLine(sample, columns),
  ];
  const alerts = alertLine(sample, columns);
  return rows >= TALL ? [...lines, ...alerts] : [...lines.slice(0, SHORT_HEAD - alerts.length), ...alerts];
}

/** Rows of sandboxes that the screen holds below its head and above its foot, and how far it can be scrolled. */
export function scrollOf({ sample, problem }: Scene, view: View, size: Size): Scroll {
  const lines = sample === null ? 1 : head(sample, problem, size).length;
  const page = Math.max(1, size.rows - lines - 2);
  const count = sample === null ? 0 : filterRows(sample.sandboxes, view.filter).length;
  return { page, most: Math.max(0, count - page) };
}

function helpLines({ columns }: Size): Line[] {
  const keys = KEYS.map(([name, does]) => ({ text: fit(`${name.padEnd(18)}${does}`, columns).trimEnd() }));
  return [{ text: 'agentzip top: keys', tone: 'title' as const }, ...keys];
}

function foot(view: View, shown: string, width: number): Line {
  if (view.typing) return { text: fit(`filter: ${view.filter}_`, width).trimEnd(), tone: 'head' };
  const parts = [
    shown,
    view.paused ? 'PAUSED' : '',
    view.filter === '' ? '' : `filter "${view.filter}"`,
    ...['? help', 'q quit'],
    `sorted by ${columnOf(view.sort).title.toLowerCase()}`,
  ];
  return { text: joined(parts, width), tone: 'dim' };
}

function rowTone(row: Sample['sandboxes'][number]): Tone | undefined {
  const progress = windowProgress(row);
  if (progress !== null && progress > 1) return 'warn';
  return row.phase === 'llm_wait' ? 'good' : undefined;
}

/** The whole screen: never more than `size.rows` lines of at most `size.columns` columns. */
export function screen(scene: Scene, view: View, size: Size): Line[] {
  const lines = content(scene, view, size).slice(0, size.rows);
  return lines.map(({ text, tone }) => ({ text: text.slice(0, size.columns), tone }));
}

function content(scene: Scene, view: View, size: Size): Line[] {
  const { sample, problem } = scene;
  const { columns: width } = size;
  if (view.help) return helpLines(size);
  if (sample === null) {
    const text = problem === null ? 'agentzip: connecting' : `agentzip: ${problemText(problem)}`;
    const keys = { text: joined(['q quit'], width), tone: 'dim' as const };
    return [{ text: fit(text, width).trimEnd(), tone: 'bad' as const }, keys];
  }
  const { page, most } = scrollOf(scene, view, size);
  const rows = sortRows(filterRows(sample.sandboxes, view.filter), view);
  const top = Math.max(0, Math.min(view.top, most));
  const shown = rows.slice(top, top + page);
  const columns = fitColumns(width, Math.max(0, ...rows.map(({ id }) => id.length)));
  const title = tableRow(columns, ({ key, title: name }) =>
    key === view.sort ? `${name}${view.descending ? 'v' : '^'}` : name,
  );
  const range = rows.length === 0 ? 'no sandbox' : `${top + 1}-${top + shown.length} of ${rows.length}`;
  return [
    ...head(sample, problem, size),
    { text: title.trimEnd(), tone: 'head' as const },
    ...shown.map((row) => ({
      text: tableRow(columns, ({ cell }) => cell(row)).trimEnd(),
      tone: rowTone(row),
    })),
    foot(view, range, width),
  ];
}

/** One look for a pipe or a file: everything, without a foot. */
export function snapshot(sample: Sample, width: number): string {
  const size = { columns: width, rows: Infinity };
  const view = {
    sort: 'owned',
    descending: true,
    filter: '',
    typing: false,
    paused: false,
    help: false,
    top: 0,
  };
  const lines = screen({ sample, problem: null }, view, size);
  return lines
    .slice(0, -1)
    .map(({ text }) => `${text}\n`)
    .join('');
}
