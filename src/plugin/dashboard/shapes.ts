/** What the dashboard's page and its server say to each other. Without imports: the page is compiled apart. */

/** Encodings in the order they are shown: the cheapest first. */
export const ENCODINGS = [
  ...(['same', 'duplicate', 'template', 'delta', 'sparse'] as const),
  ...(['dictionary', 'clustered', 'zstd', 'raw', 'staged'] as const),
];

/** One look in the history. Bytes; null: not known. */
export interface Point {
  /** Unix time in ms. */
  at: number;
  owned: number;
  out: number;
  pool: number;
  base: number;
  /** Shares from 0 to 1, of all templates. */
  accuracy: number | null;
  coverage: number | null;
  faultsPerS: number | null;
}

/** A waiting window; `endedAt` and `reason` are null while it is open. Unix time in ms. */
export interface WindowRecord {
  sandbox: string;
  openedAt: number;
  endedAt: number | null;
  predictedMs: number | null;
  reason: string | null;
}

export interface BoxNow {
  id: string;
  template: string | null;
  phase: string;
  owned: number;
  out: number;
  stored: number;
  ratio: number | null;
  windows: number;
  accuracy: number | null;
  faultsPerS: number | null;
}

export interface TemplateNow {
  id: string;
  pages: number;
  resident: number;
  ratio: number | null;
  accuracy: number | null;
  coverage: number | null;
  drift: string | null;
}

/** The host at one look. */
export interface Now {
  at: number;
  version: string;
  enabled: boolean;
  uptimeMs: number;
  waiting: number;
  reduction: number | null;
  reductionCharged: number | null;
  accuracy: number | null;
  faultsPerS: number | null;
  available: number;
  total: number;
  somePercent: number | null;
  fullPercent: number | null;
  short: boolean;
  foreignPages: number;
  standby: boolean;
  encodings: Readonly<Record<string, number>>;
  alerts: { code: string; message: string; remedy: string }[];
  sandboxes: BoxNow[];
  templates: TemplateNow[];
}

/** One look as it is sent to pages that are open: `windows` are those that are new or have changed. */
export interface LookEvent {
  point: Point;
  now: Now;
  windows: WindowRecord[];
}

/** `GET /api/history`. */
export interface HistoryAnswer {
  points: Point[];
  windows: WindowRecord[];
  now: Now | null;
}
