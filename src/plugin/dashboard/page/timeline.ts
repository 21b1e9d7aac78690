import { duration } from '../../watch/format.js';
import type { WindowRecord } from '../shapes.js';
import { byId, color, element } from './dom.js';

/** Windows by sandbox, as they came. */
export class Windows {
  private readonly bySandbox = new Map<string, Map<number, WindowRecord>>();

  add(records: readonly WindowRecord[]): void {
    for (const record of records) {
      let own = this.bySandbox.get(record.sandbox);
      if (own === undefined) this.bySandbox.set(record.sandbox, (own = new Map()));
      // What has ended stays so, whichever was sent first.
      if (record.endedAt === null && (own.get(record.openedAt)?.endedAt ?? null) !== null) continue;
      own.set(record.openedAt, record);
    }
  }

  /** Forgets what ended before `at`. */
  forget(at: number): void {
    for (const [sandbox, own] of this.bySandbox) {
      for (const [key, { endedAt }] of own) if (endedAt !== null && endedAt < at) own.delete(key);
      if (own.size === 0) this.bySandbox.delete(sandbox);
    }
  }

  clear(): void {
    this.bySandbox.clear();
  }

  of(sandbox: string, fromMs: number): WindowRecord[] {
    const own = [...(this.bySandbox.get(sandbox)?.values() ?? [])];
    return own.filter(({ endedAt }) => endedAt === null || endedAt > fromMs);
  }
}

const LEGEND: readonly [color: string, text: string][] = [
  ['window', 'wait that was used'],
  ['open', 'open'],
  ['late', 'open, longer than expected'],
  ['base', 'ended early: budget, shutdown or exit'],
];

export function windowsLegend(): void {
  for (const [name, text] of LEGEND) {
    const swatch = element('i');
    swatch.style.background = `var(--${name})`;
    byId('windows-legend').append(element('li', {}, swatch, text));
  }
}

type Hue = 'window' | 'open' | 'late' | 'base' | 'grid';

/** What all timelines have in common. Asked for once a drawing: each question makes the browser lay the page out. */
export interface Canvas {
  width: number;
  height: number;
  hues: Record<Hue, string>;
}

export function canvasLike({ clientWidth: width, clientHeight: height }: HTMLCanvasElement): Canvas {
  const names: Hue[] = ['window', 'open', 'late', 'base', 'grid'];
  const hues = Object.fromEntries(names.map((name) => [name, color(name)])) as Record<Hue, string>;
  return { width, height, hues };
}

function hueOf({ endedAt, reason, predictedMs, openedAt }: WindowRecord, nowMs: number): Hue {
  if (endedAt === null) return predictedMs !== null && nowMs - openedAt > predictedMs ? 'late' : 'open';
  return reason === 'first_token' || reason === 'tool_start' ? 'window' : 'base';
}

/** What a row's timeline shows, in words. */
export function timelineText(records: readonly WindowRecord[], [fromMs, toMs]: [number, number]): string {
  const waited = records.reduce(
    (sum, { openedAt, endedAt }) =>
      sum + Math.max(0, Math.min(endedAt ?? toMs, toMs) - Math.max(openedAt, fromMs)),
    0,
  );
  const share = toMs > fromMs ? Math.round((100 * waited) / (toMs - fromMs)) : 0;
  const open = records.find(({ endedAt }) => endedAt === null);
  const now =
    open === undefined
      ? ''
      : `, waits for ${duration(toMs - open.openedAt)}` +
        (open.predictedMs === null ? '' : ` of ${duration(open.predictedMs)}`);
  return `${records.length} windows, ${share}% of the time${now}`;
}

const GAP_PX = 1;

/** Draws the windows of one sandbox. */
export function drawTimeline(
  canvas: HTMLCanvasElement,
  { width, height, hues }: Canvas,
  records: readonly WindowRecord[],
  [fromMs, toMs]: [number, number],
): void {
  const context = canvas.getContext('2d');
  if (context === null || width === 0) return;
  const scale = devicePixelRatio;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.fillStyle = hues.grid;
  context.fillRect(0, height - 1, width, 1);
  const x = (ms: number): number => ((ms - fromMs) / (toMs - fromMs)) * width;
  for (const record of records) {
    const from = Math.max(0, x(record.openedAt));
    const to = x(record.endedAt ?? toMs);
    context.fillStyle = hues[hueOf(record, toMs)];
    context.fillRect(from, 2, Math.max(1, to - from - GAP_PX), height - 4);
  }
}
