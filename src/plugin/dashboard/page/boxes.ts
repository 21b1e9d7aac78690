import { percent, perSecond, shortBytes, times } from '../../watch/format.js';
import type { BoxNow } from '../shapes.js';
import { byId, clock, element, setText } from './dom.js';
import { canvasLike, drawTimeline, timelineText, type Windows } from './timeline.js';

interface Column {
  title: string;
  /** Left out on narrow screens. */
  wide?: boolean;
  text?: boolean;
  cell(box: BoxNow): string;
  order(box: BoxNow): string | number | null;
}

const PHASES: Record<string, string> = {
  tool_running: 'tool',
  llm_wait: 'waits',
  llm_streaming: 'streams',
};

const COLUMNS: readonly Column[] = [
  { title: 'Sandbox', text: true, cell: ({ id }) => id, order: ({ id }) => id },
  {
    ...{ title: 'Template', text: true, wide: true },
    cell: ({ template }) => template ?? '-',
    order: ({ template }) => template,
  },
  { title: 'Phase', text: true, cell: ({ phase }) => PHASES[phase] ?? phase, order: ({ phase }) => phase },
  { title: 'Owned', cell: ({ owned }) => shortBytes(owned), order: ({ owned }) => owned },
  { title: 'Out', wide: true, cell: ({ out }) => shortBytes(out), order: ({ out }) => out },
  { title: 'Stored', wide: true, cell: ({ stored }) => shortBytes(stored), order: ({ stored }) => stored },
  { title: 'Ratio', cell: ({ ratio }) => times(ratio), order: ({ ratio }) => ratio },
  {
    ...{ title: 'Prefetch used', wide: true },
    cell: ({ accuracy }) => percent(accuracy),
    order: ({ accuracy }) => accuracy,
  },
  {
    ...{ title: 'Faults/s', wide: true },
    cell: ({ faultsPerS }) => perSecond(faultsPerS),
    order: ({ faultsPerS }) => faultsPerS,
  },
];

const collator = new Intl.Collator('en', { numeric: true });

function compare(a: string | number | null, b: string | number | null): number {
  if (a === null || b === null) return 0;
  return typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(String(a), String(b));
}

interface Row {
  row: HTMLTableRowElement;
  cells: HTMLElement[];
  canvas: HTMLCanvasElement;
}

/** The table of sandboxes, each with its windows on a line of time. */
export class Boxes {
  private readonly rows = new Map<string, Row>();
  private readonly heads: HTMLElement[] = [];
  private readonly time = element('th', { scope: 'col', class: 'time' });
  private sort = 0;
  private descending = false;
  private shown: BoxNow[] = [];
  private range: [number, number] = [0, 1];

  constructor(private readonly windows: Windows) {
    const head = byId('boxes').querySelector('thead tr') as HTMLElement;
    COLUMNS.forEach(({ title, text, wide }, index) => {
      const button = element('button', { type: 'button' }, title);
      button.addEventListener('click', () => this.sortBy(index));
      const classes = [text ? '' : 'number', wide ? 'wide' : ''].join(' ').trim();
      const cell = element('th', { scope: 'col', class: classes }, button);
      this.heads.push(cell);
      head.append(cell);
    });
    head.append(this.time);
    byId('filter').addEventListener('input', () => this.draw());
    new ResizeObserver(() => this.drawTimelines()).observe(byId('boxes'));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.drawTimelines());
    this.mark();
  }

  set(boxes: readonly BoxNow[], range: [number, number]): void {
    this.shown = [...boxes];
    this.range = range;
    setText(this.time, `Windows from ${clock(range[0])} to ${clock(range[1])}`);
    const names = new Set(boxes.map(({ id }) => id));
    for (const [id, { row }] of this.rows) {
      if (names.has(id)) continue;
      row.remove();
      this.rows.delete(id);
    }
    this.draw();
  }

  private sortBy(index: number): void {
    this.descending = index === this.sort ? !this.descending : COLUMNS[index].text !== true;
    this.sort = index;
    this.mark();
    this.draw();
  }

  private mark(): void {
    this.heads.forEach((head, index) => {
      const order = index === this.sort ? (this.descending ? 'descending' : 'ascending') : 'none';
      head.setAttribute('aria-sort', order);
      const arrow = order === 'none' ? '' : order === 'ascending' ? ' ▲' : ' ▼';
      setText(head.firstElementChild as Element, COLUMNS[index].title + arrow);
    });
  }

  private draw(): void {
    const filter = byId<HTMLInputElement>('filter').value.trim().toLowerCase();
    const { order } = COLUMNS[this.sort];
    const sign = this.descending ? -1 : 1;
    const found = this.shown
      .filter(({ id, template, phase }) =>
        `${id} ${template} ${PHASES[phase]} ${phase}`.toLowerCase().includes(filter),
      )
      .sort((a, b) => {
        const [x, y] = [order(a), order(b)];
        if ((x === null) !== (y === null)) return x === null ? 1 : -1;
        return sign * compare(x, y) || collator.compare(a.id, b.id);
      });
    const body = byId('boxes').querySelector('tbody') as HTMLElement;
    const rows = found.map((box) => this.rowOf(box).row);
    const same = rows.length === body.children.length && rows.every((row, i) => row === body.children[i]);
    if (!same) body.replaceChildren(...rows);
    const note =
      this.shown.length === 0
        ? 'No sandbox is registered.'
        : `${found.length} of ${this.shown.length} sandboxes`;
    setText(byId('boxes-note'), note);
    this.drawTimelines();
  }

  private rowOf(box: BoxNow): Row {
    let row = this.rows.get(box.id);
    if (row === undefined) this.rows.set(box.id, (row = makeRow()));
    COLUMNS.forEach(({ cell }, i) => setText((row as Row).cells[i], cell(box)));
    row.cells[0].title = box.id;
    return row;
  }

  private drawTimelines(): void {
    const rows = [...this.rows].filter(([, { row }]) => row.isConnected);
    if (rows.length === 0) return;
    const like = canvasLike(rows[0][1].canvas);
    for (const [id, { canvas }] of rows) {
      const records = this.windows.of(id, this.range[0]);
      canvas.setAttribute('aria-label', timelineText(records, this.range));
      drawTimeline(canvas, like, records, this.range);
    }
  }
}

function makeRow(): Row {
  const cells = COLUMNS.map(({ text, wide }, index) => {
    const classes = [text ? '' : 'number', wide ? 'wide' : ''].join(' ').trim();
    return index === 0 ? element('th', { scope: 'row' }) : element('td', { class: classes });
  });
  const canvas = element('canvas', { role: 'img' });
  return { row: element('tr', {}, ...cells, element('td', { class: 'time' }, canvas)), cells, canvas };
}
