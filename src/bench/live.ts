import type { Row, RunView } from './view.js';

const REDRAW_MS = 400;
const LINE_MS = 5000;
const BAR = 12;
const MIB = 2 ** 20;

/** A terminal or a pipe; `process.stderr` and `process.stdout` are both. */
export interface Screen {
  write(text: string): unknown;
  isTTY?: boolean;
  columns?: number;
  rows?: number;
}

/** Shows a run while it goes on: a table redrawn in place on a terminal, a line now and then elsewhere. */
export class LiveTable {
  private timer: NodeJS.Timeout | undefined;
  private drawn = 0;

  constructor(private readonly screen: Screen) {}

  start(view: RunView): void {
    if (this.screen.isTTY) {
      this.timer = setInterval(() => this.draw(view), REDRAW_MS);
    } else {
      this.screen.write(`${summaryLine(view)}\n`);
      this.timer = setInterval(() => this.screen.write(`${summaryLine(view)}\n`), LINE_MS);
    }
  }

  /** Draws a last time and leaves the table where it stands. */
  stop(view: RunView): void {
    clearInterval(this.timer);
    if (this.screen.isTTY) this.draw(view);
    this.drawn = 0;
  }

  private draw(view: RunView): void {
    const width = Math.max(40, (this.screen.columns ?? 80) - 1);
    const lines = table(view, (this.screen.rows ?? 24) - 2).map((line) => line.slice(0, width));
    const up = this.drawn > 0 ? `\x1b[${this.drawn}A` : '';
    this.screen.write(up + lines.map((line) => `\x1b[2K${line}\n`).join(''));
    this.drawn = lines.length;
  }
}

const mib = (bytes: number): string => (bytes / MIB).toFixed(1);
/** `, 42% of 6 runs, about 3 min left`; nothing where one run is all. */
export function overall(view: RunView, now = Date.now()): string {
  const share = view.share();
  if (share === null || view.session === null || view.session.of < 2) return '';
  const tookMs = now - view.session.startedAt;
  const leftMs = share > 0 ? (tookMs * (1 - share)) / share : null;
  const left =
    leftMs === null
      ? ''
      : leftMs < 90_000
        ? `${Math.ceil(leftMs / 1000)} s`
        : `${Math.round(leftMs / 60_000)} min`;
  return `, ${Math.floor(share * 100)}% of ${view.session.of} runs${left === '' ? '' : `, about ${left} left`}`;
}

const seconds = (view: RunView): string => `${Math.round((Date.now() - view.startedAt) / 1000)} s`;

/** At most `height` lines (4 at least) of at most 80 columns: what does not fit could not be redrawn in place. */
export function table(view: RunView, height: number): string[] {
  const { owned, pool } = view.totals();
  const rows = view.rows();
  const shown = rows.length + 3 <= height ? rows : rows.slice(0, Math.max(0, height - 4));
  const more = rows.length > shown.length ? [`and ${rows.length - shown.length} more`] : [];
  return [
    `${view.title}: ${view.current}, ${seconds(view)}${overall(view)}`.slice(0, 80),
    `${'sandbox'.padEnd(12)}${'progress'.padEnd(BAR + 7)}${'phase'.padEnd(11)}${'owned'.padStart(11)}${'stored'.padStart(12)}${'ratio'.padStart(9)}`,
    ...shown.map(tableRow),
    ...more,
    `${'together'.padEnd(12 + BAR + 7 + 11)}${`${mib(owned)} MiB`.padStart(11)}${`${mib(pool)} MiB`.padStart(12)}`,
  ];
}

function tableRow(row: Row): string {
  const done = row.phase === 'done' ? row.turns : Math.max(0, row.turn - 1);
  const filled = Math.round((BAR * done) / row.turns);
  const bar = '='.repeat(filled).padEnd(BAR, '.');
  const progress = `${bar} ${`${row.turn}/${row.turns}`.padEnd(6)}`;
  const ratio = row.ratio === null ? '-' : `${row.ratio.toFixed(1)}x`;
  const [owned, stored] = [row.owned, row.stored].map((bytes) => `${mib(bytes)} MiB`);
  return `${row.id.slice(0, 11).padEnd(12)}${progress}${row.phase.slice(0, 10).padEnd(11)}${owned.padStart(11)}${stored.padStart(12)}${ratio.padStart(9)}`;
}

function summaryLine(view: RunView): string {
  const rows = view.rows();
  const { owned, pool } = view.totals();
  const count = (test: (row: Row) => boolean): number => rows.filter(test).length;
  const waiting = count((row) => row.phase === 'waiting');
  const done = count((row) => row.phase === 'done');
  const turns = rows.reduce((sum, row) => sum + row.turn, 0);
  const total = rows.reduce((sum, row) => sum + row.turns, 0);
  return (
    `${view.title}: ${view.current}, ${seconds(view)}: turns ${turns}/${total}, ${waiting} waiting, ${done} done, ` +
    `owned ${mib(owned)} MiB, pool ${mib(pool)} MiB${overall(view)}`
  );
}
