import { bytes, percent } from '../../watch/format.js';
import type { HistoryAnswer, LookEvent, Now, Point } from '../shapes.js';
import { Boxes } from './boxes.js';
import { Chart } from './chart.js';
import { byId } from './dom.js';
import { showAlerts, showEncodings, showState, showTemplates, showTiles } from './facts.js';
import { Windows, windowsLegend } from './timeline.js';

/** As many as the server keeps. */
const MAX_POINTS = 1800;
/** A history that has just begun is not stretched over the whole width. */
const LEAST_RANGE_S = 60;
const BINARY_STEPS = Array.from({ length: 40 }, (_, power) => 2 ** power * 1024);

let points: Point[] = [];
let now: Now | null = null;
let rangeS = 300;
/** Looks that came while the history was on its way. */
let early: LookEvent[] | null = null;
const windows = new Windows();
const boxes = new Boxes(windows);
windowsLegend();

const memory = new Chart({
  ...{ id: 'memory', height: 260, axis: bytes, steps: BINARY_STEPS },
  lines: [
    { name: 'Sandboxes own', color: 'owned', area: true, value: (i) => bytes(points[i].owned) },
    { name: 'Store', color: 'pool', area: true, value: (i) => bytes(points[i].pool) },
    { name: 'Base: template pages', color: 'base', area: true, value: (i) => bytes(points[i].base) },
    { name: 'Without AgentZip', color: 'without', value: (i) => bytes(points[i].owned + points[i].out) },
  ],
});
const prefetch = new Chart({
  ...{ id: 'prefetch', height: 258, most: 1, axis: percent },
  lines: [
    { name: 'Accuracy: used of put back', color: 'used', value: (i) => percent(points[i].accuracy) },
    { name: 'Coverage: put back of used', color: 'cover', value: (i) => percent(points[i].coverage) },
  ],
});

/** What is shown, in seconds: up to the last look. */
function shownRange(): [number, number] {
  const to = (points.at(-1)?.at ?? Date.now()) / 1000;
  const first = (points[0]?.at ?? Date.now()) / 1000;
  return [Math.max(to - rangeS, Math.min(first, to - LEAST_RANGE_S)), to];
}

const memorySummary = (last: Point): string =>
  `Memory over time. Now ${bytes(last.owned + last.pool)} with AgentZip, of which sandboxes own ${bytes(last.owned)}; ` +
  `${bytes(last.owned + last.out)} without. Arrow keys read other times.`;

const prefetchSummary = (last: Point): string =>
  `Prefetch over time. Accuracy now ${percent(last.accuracy)}, coverage ${percent(last.coverage)}.`;

function show(): void {
  const last = points.at(-1);
  if (now === null || last === undefined) return;
  const range = shownRange();
  const rangeMs: [number, number] = [range[0] * 1000, range[1] * 1000];
  const at = points.map((point) => point.at / 1000);
  const of = (value: (point: Point) => number | null) => points.map(value);
  const areas = [
    of(({ owned, pool, base }) => owned + pool + base),
    of(({ pool, base }) => pool + base),
    of(({ base }) => base),
  ];
  memory.set([at, ...areas, of(({ owned, out }) => owned + out)], range, memorySummary(last));
  prefetch.set(
    [at, of(({ accuracy }) => accuracy), of(({ coverage }) => coverage)],
    range,
    prefetchSummary(last),
  );
  showState(now, null);
  showAlerts(now);
  showTiles(now, last);
  showEncodings(now);
  showTemplates(now);
  boxes.set(now.sandboxes, rangeMs);
  document.body.dataset.looks = String(points.length);
}

function take(look: LookEvent): void {
  if (early !== null) {
    early.push(look);
    return;
  }
  const { point, now: latest, windows: changed } = look;
  if (point.at > (points.at(-1)?.at ?? 0)) points.push(point);
  if (points.length > MAX_POINTS) points.shift();
  now = latest;
  windows.add(changed);
  windows.forget(points[0].at);
  if (!document.hidden) show();
}

async function load(): Promise<void> {
  early = [];
  const answer = await fetch('/api/history');
  if (!answer.ok) throw new Error(await answer.text());
  const history = (await answer.json()) as HistoryAnswer;
  points = history.points;
  now = history.now;
  windows.clear();
  windows.add(history.windows);
  const missed = early ?? [];
  early = null;
  for (const look of missed) take(look);
  show();
}

/** Listens; after each break the history is read again, so that nothing is missing from it. */
function listen(): void {
  const source = new EventSource('/api/events');
  const failed = (error: unknown): void =>
    showState(now, error instanceof Error ? error.message : String(error));
  source.addEventListener('open', () => void load().catch(failed));
  source.addEventListener('look', (event) =>
    take(JSON.parse((event as MessageEvent<string>).data) as LookEvent),
  );
  source.addEventListener('problem', (event) => {
    failed((JSON.parse((event as MessageEvent<string>).data) as { message: string }).message);
  });
  source.addEventListener('error', () => {
    const gone = source.readyState === EventSource.CLOSED;
    failed(
      gone
        ? 'refused: open the address in dashboard.url again'
        : 'AgentZip does not answer; what follows is what was seen last. Trying again.',
    );
  });
}

byId('range').addEventListener('change', (event) => {
  rangeS = Number((event.target as HTMLInputElement).value);
  show();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) show();
});
// The key has become a cookie; it need not stand in the address bar and the history.
history.replaceState(null, '', '/');
listen();
