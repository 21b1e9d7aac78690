import { COLUMNS } from './columns.js';
import type { Order } from './table.js';

/** What the user has chosen. */
export interface View extends Order {
  filter: string;
  /** Typed keys go to the filter. */
  typing: boolean;
  paused: boolean;
  help: boolean;
  /** First row that is shown. */
  top: number;
}

export const FIRST_VIEW: View = {
  ...{ sort: 'owned', descending: true, filter: '' },
  ...{ typing: false, paused: false, help: false, top: 0 },
};

/** A key as the view takes it: its name, or the text that was typed. */
export type KeyName =
  | 'up'
  | 'down'
  | 'left'
  | 'right'
  | 'pageup'
  | 'pagedown'
  | 'home'
  | 'end'
  | 'return'
  | 'escape'
  | 'backspace'
  | 'interrupt';
export interface KeyPress {
  name?: KeyName;
  text?: string;
}

/** Keys and what they do, for the help. */
export const KEYS: readonly [keys: string, does: string][] = [
  ['s, right / left', 'sort by the next, the previous column'],
  ['r', 'reverse the order'],
  ['/', 'filter by text; Enter keeps it, Esc clears it'],
  ['up, down, j, k', 'scroll by a row'],
  ['PgUp, PgDn, b, f', 'scroll by a page'],
  ['Home, End, g, G', 'to the first, the last row'],
  ['p, space', 'pause and go on'],
  ['?, h', 'this help; any key leaves it'],
  ['q, Ctrl-C', 'quit'],
];

const MAX_FILTER = 100;
const NAMES: ReadonlySet<string> = new Set(['id', 'template', 'tenant', 'phase']);

/** Names begin with the first, figures with the largest. */
const sortedBy = (view: View, key: string): View => ({
  ...view,
  sort: key,
  descending: !NAMES.has(key),
  top: 0,
});

function nextColumn(view: View, step: number): View {
  const at = COLUMNS.findIndex(({ key }) => key === view.sort);
  const next = COLUMNS[(at + step + COLUMNS.length) % COLUMNS.length];
  return sortedBy(view, next.key);
}

function typed(view: View, { name, text }: KeyPress): View {
  if (name === 'return') return { ...view, typing: false };
  if (name === 'escape') return { ...view, typing: false, filter: '', top: 0 };
  if (name === 'backspace') return { ...view, filter: view.filter.slice(0, -1), top: 0 };
  const letters = (text ?? '').replace(/[^\x20-\x7e]/g, '');
  return { ...view, filter: (view.filter + letters).slice(0, MAX_FILTER), top: 0 };
}

const ACTIONS: Record<string, (view: View, page: number) => View> = {
  right: (view) => nextColumn(view, 1),
  s: (view) => nextColumn(view, 1),
  left: (view) => nextColumn(view, -1),
  r: (view) => ({ ...view, descending: !view.descending, top: 0 }),
  '/': (view) => ({ ...view, typing: true }),
  escape: (view) => ({ ...view, filter: '', top: 0 }),
  up: (view) => ({ ...view, top: view.top - 1 }),
  k: (view) => ({ ...view, top: view.top - 1 }),
  down: (view) => ({ ...view, top: view.top + 1 }),
  j: (view) => ({ ...view, top: view.top + 1 }),
  pageup: (view, page) => ({ ...view, top: view.top - page }),
  b: (view, page) => ({ ...view, top: view.top - page }),
  pagedown: (view, page) => ({ ...view, top: view.top + page }),
  f: (view, page) => ({ ...view, top: view.top + page }),
  home: (view) => ({ ...view, top: 0 }),
  g: (view) => ({ ...view, top: 0 }),
  end: (view) => ({ ...view, top: Infinity }),
  G: (view) => ({ ...view, top: Infinity }),
  p: (view) => ({ ...view, paused: !view.paused }),
  ' ': (view) => ({ ...view, paused: !view.paused }),
  '?': (view) => ({ ...view, help: true }),
  h: (view) => ({ ...view, help: true }),
};

/** `scroll.most` is the last `top` that fills the page, `scroll.page` the rows of a page. */
export interface Scroll {
  most: number;
  page: number;
}

/** The view after a key; null: the user wants to leave. */
export function press(view: View, key: KeyPress, scroll: Scroll): View | null {
  if (key.name === 'interrupt') return null;
  if (view.typing) return typed(view, key);
  if (view.help) return { ...view, help: false };
  if (key.text === 'q') return null;
  // Pasted or fast typed keys come together.
  const names = key.name !== undefined ? [key.name] : [...(key.text ?? '')];
  let next = view;
  for (const name of names) next = ACTIONS[name]?.(next, scroll.page) ?? next;
  return { ...next, top: Math.max(0, Math.min(next.top, scroll.most)) };
}
