import type { Phase } from '../../controller/api.js';
import { duration, percent, perSecond, shortBytes, times } from '../watch/format.js';
import type { SandboxRow } from '../watch/sample.js';

const BAR = 6;

const PHASES: Record<Phase, string> = {
  tool_running: 'tool',
  llm_wait: 'wait',
  llm_streaming: 'stream',
  idle: 'idle',
  unknown: 'unknown',
};

export const phaseName = (phase: Phase): string => PHASES[phase];

/** How much of the expected wait is over; more than 1 when it lasts longer. Null: not known. */
export function windowProgress({ window }: SandboxRow): number | null {
  if (window === null || window.predictedMs === null || window.predictedMs <= 0) return null;
  return window.elapsedMs / window.predictedMs;
}

/** `===... 12s/30s`: elapsed and predicted. */
export function windowCell(row: SandboxRow): string {
  if (row.window === null) return '-';
  const progress = windowProgress(row);
  const elapsed = duration(row.window.elapsedMs);
  if (progress === null || row.window.predictedMs === null) return elapsed;
  const filled = Math.round(BAR * Math.min(1, progress));
  const bar = (progress > 1 ? '+' : '=').repeat(filled).padEnd(BAR, '.');
  return `${bar} ${elapsed}/${duration(row.window.predictedMs)}`;
}

export interface Column {
  key: string;
  title: string;
  width: number;
  /** Of those that do not fit, the highest go first; 0 always stays. */
  priority: number;
  left?: boolean;
  cell(row: SandboxRow): string;
  /** What rows are sorted by; null comes last. */
  order(row: SandboxRow): string | number | null;
}

/** In the order they are shown. The first takes what room is left. */
export const COLUMNS: readonly Column[] = [
  {
    key: 'id',
    title: 'SANDBOX',
    width: 10,
    priority: 0,
    left: true,
    cell: ({ id }) => id,
    order: ({ id }) => id,
  },
  {
    ...{ key: 'template', title: 'TEMPLATE', width: 12, priority: 10, left: true },
    cell: ({ template }) => template ?? '-',
    order: ({ template }) => template,
  },
  {
    ...{ key: 'tenant', title: 'TENANT', width: 10, priority: 11, left: true },
    cell: ({ tenant }) => tenant,
    order: ({ tenant }) => tenant,
  },
  {
    ...{ key: 'phase', title: 'PHASE', width: 7, priority: 1, left: true },
    cell: ({ phase }) => phaseName(phase),
    order: ({ phase }) => phaseName(phase),
  },
  {
    ...{ key: 'owned', title: 'OWNED', width: 6, priority: 2 },
    cell: ({ ownedBytes }) => shortBytes(ownedBytes),
    order: ({ ownedBytes }) => ownedBytes,
  },
  {
    ...{ key: 'out', title: 'OUT', width: 6, priority: 8 },
    cell: ({ outBytes }) => shortBytes(outBytes),
    order: ({ outBytes }) => outBytes,
  },
  {
    ...{ key: 'stored', title: 'STORED', width: 7, priority: 5 },
    cell: ({ storedBytes }) => shortBytes(storedBytes),
    order: ({ storedBytes }) => storedBytes,
  },
  {
    ...{ key: 'ratio', title: 'RATIO', width: 6, priority: 3 },
    cell: ({ ratio }) => times(ratio),
    order: ({ ratio }) => ratio,
  },
  {
    ...{ key: 'window', title: 'WINDOW', width: BAR + 10, priority: 4, left: true },
    cell: windowCell,
    order: ({ window }) => window?.elapsedMs ?? null,
  },
  {
    ...{ key: 'accuracy', title: 'ACC', width: 4, priority: 7 },
    cell: ({ accuracy }) => percent(accuracy),
    order: ({ accuracy }) => accuracy,
  },
  {
    ...{ key: 'faults', title: 'FLT/S', width: 6, priority: 6 },
    cell: ({ faultsPerS }) => perSecond(faultsPerS),
    order: ({ faultsPerS }) => faultsPerS,
  },
  {
    ...{ key: 'windows', title: 'WINS', width: 5, priority: 9 },
    cell: ({ windows }) => String(windows),
    order: ({ windows }) => windows,
  },
];

export const columnOf = (key: string): Column => COLUMNS.find((column) => column.key === key) ?? COLUMNS[0];
