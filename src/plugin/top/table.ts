import type { SandboxRow } from '../watch/sample.js';
import { COLUMNS, columnOf, phaseName, type Column } from './columns.js';

const GAP = 2;
const MAX_ID = 40;

/** Text of exactly `width` columns; what does not fit is cut, and a `~` says so. */
export function fit(text: string, width: number, left = true): string {
  // Ids are ASCII; whatever else gets here must neither move the cursor nor be two columns wide.
  const plain = text.replace(/[^\x20-\x7e]/g, '?');
  if (plain.length > width) return width < 1 ? '' : `${plain.slice(0, width - 1)}~`;
  return left ? plain.padEnd(width) : plain.padStart(width);
}

/** The columns that fit into `width`, chosen by priority, in their order; the first grows with the longest id. */
export function fitColumns(width: number, longestId: number): Column[] {
  const chosen: Column[] = [];
  let used = -GAP;
  for (const column of [...COLUMNS].sort((a, b) => a.priority - b.priority)) {
    if (chosen.length > 0 && used + GAP + column.width > width) break;
    used += GAP + column.width;
    chosen.push(column);
  }
  const room = Math.max(0, width - used);
  return COLUMNS.filter((column) => chosen.includes(column)).map((column) =>
    column.key === 'id'
      ? {
          ...column,
          width: column.width + Math.max(0, Math.min(room, Math.min(MAX_ID, longestId) - column.width)),
        }
      : column,
  );
}

export function tableRow(columns: readonly Column[], cell: (column: Column) => string): string {
  return columns.map((column) => fit(cell(column), column.width, column.left)).join(' '.repeat(GAP));
}

export interface Order {
  sort: string;
  descending: boolean;
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), 'en', { numeric: true });
}

/** Unknown values come last either way; equal ones stand in the order of their ids. */
export function sortRows(rows: readonly SandboxRow[], { sort, descending }: Order): SandboxRow[] {
  const { order } = columnOf(sort);
  return [...rows].sort((a, b) => {
    const [x, y] = [order(a), order(b)];
    if (x === null || y === null) {
      if (x !== y) return x === null ? 1 : -1;
      return compare(a.id, b.id);
    }
    return (descending ? compare(y, x) : compare(x, y)) || compare(a.id, b.id);
  });
}

/** Rows in which every word of `filter` occurs, in id, template, tenant or phase. */
export function filterRows(rows: readonly SandboxRow[], filter: string): SandboxRow[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(({ id, template, tenant, phase }) => {
    const text = `${id} ${template ?? ''} ${tenant} ${phaseName(phase)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
