import { ATTRIBUTES, SPANS } from '../../otel/names.js';
import { count, mib, ms, percent, seconds } from './format.js';
import { escape } from './markup.js';
import type { Moment, Step, Trace } from './trace.js';

const WIDTH = 980;
const PLOT = { left: 150, right: 950 };
/** A stretch without any moment longer than this share of all is drawn short, with its length. */
const QUIET_SHARE = 0.15;
const QUIET_WIDTH = 118;
const ROW = { first: 92, events: 62, height: 62, bar: 18 };
/** Room for the label of an event, and the lines there are for them. */
const LABEL = { width: 118, line: 15, lines: 3 };

const CLASSES: Record<string, string> = {
  [SPANS.window]: 'window',
  [SPANS.pageout]: 'pageout',
  [SPANS.refine]: 'refine',
  [SPANS.prefetch]: 'prefetch',
};

/** Where a moment is drawn, and which stretches are not drawn to scale. */
interface Scale {
  x(at: number): number;
  quiet: { from: number; to: number }[];
}

/** Moments in proportion, but for long stretches in which nothing begins, ends or happens. */
export function scaleOf(moments: readonly number[], left: number, right: number): Scale {
  const sorted = [...new Set(moments)].sort((a, b) => a - b);
  const total = sorted[sorted.length - 1] - sorted[0];
  const gaps = sorted.slice(1).map((to, i) => ({ from: sorted[i], to }));
  const quiet = gaps.filter(({ from, to }) => to - from > QUIET_SHARE * total);
  const drawn = total - quiet.reduce((sum, { from, to }) => sum + to - from, 0);
  const perMs = drawn > 0 ? (right - left - quiet.length * QUIET_WIDTH) / drawn : 0;
  const x = (at: number): number =>
    gaps.reduce((sum, gap) => {
      const share = Math.min(1, Math.max(0, (at - gap.from) / (gap.to - gap.from)));
      const width = quiet.includes(gap) ? QUIET_WIDTH : (gap.to - gap.from) * perMs;
      return sum + share * width;
    }, left);
  return { x, quiet };
}

const duration = (value: number): string => (value < 1000 ? ms(value) : seconds(value / 1000));
const text = (x: number, y: number, words: string, more = ''): string =>
  `<text x="${x.toFixed(1)}" y="${y}"${more}>${escape(words)}</text>`;

/** What a step did, in the words of its attributes. */
function facts({ attributes, events, from, to }: Step): string {
  const part = (key: string, words: (value: number) => string): string[] => {
    const value = attributes.get(key);
    return value === undefined ? [] : [words(Number(value))];
  };
  const turn = events.find(({ name }) => name === 'turn');
  return [
    duration(to - from),
    ...(turn === undefined ? [] : [`turn came after ${ms(turn.at - from)}`]),
    ...part(ATTRIBUTES.pages, (pages) => `${count(pages)} pages`),
    ...part(ATTRIBUTES.bytesOut, (bytes) => `stored in ${mib(bytes)}`),
    ...part(ATTRIBUTES.ratio, (ratio) => `${ratio.toFixed(1)}x`),
    ...part(ATTRIBUTES.cpuMs, (cpu) => `CPU ${ms(cpu)}`),
    ...part(ATTRIBUTES.accuracy, (share) => `of those before ${percent(share)} were seen used`),
  ].join(' · ');
}

function bar(step: Step, y: number, { x }: Scale): string {
  const from = x(step.from);
  const width = Math.max(2, x(step.to) - from);
  const kind = CLASSES[step.name] ?? 'window';
  return `<rect class="${kind}" x="${from.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW.bar}" rx="2" />`;
}

/**
 * Ticks of a window's events, each labelled with its time since the request. From the last to the first: a label that would
 * run into the next one goes a line lower, so that no tick crosses a label.
 */
function eventLabels(events: readonly Moment[], start: number, y: number, { x }: Scale): string {
  const taken = new Array<number>(LABEL.lines).fill(PLOT.right);
  return events
    .toSorted((a, b) => b.at - a.at)
    .map(({ name, at }) => {
      const free = taken.findIndex((from) => x(at) + LABEL.width <= from);
      // The last ones have their label to the left of their tick.
      const before = x(at) + LABEL.width > PLOT.right;
      const line = before || free < 0 ? LABEL.lines - 1 : free;
      taken[line] = x(at);
      const foot = y + ROW.bar + 12 + line * LABEL.line;
      return (
        `<path class="tick" d="M${x(at).toFixed(1)} ${y - 3} V${foot - 9}" />` +
        text(
          x(at) + (before ? -4 : 4),
          foot,
          `${name} ${duration(at - start)}`,
          ` class="note${before ? ' end' : ''}"`,
        )
      );
    })
    .join('\n');
}

function stepRow(step: Step, y: number, scale: Scale): string {
  const from = scale.x(step.from);
  const late = from > (PLOT.left + PLOT.right) / 2;
  const at = late ? Math.max(scale.x(step.to), from + 2) : from;
  return [
    text(16, y + 14, step.name.replace('agentzip.', ''), ' class="name"'),
    bar(step, y, scale),
    text(at, y + ROW.bar + 15, facts(step), late ? ' class="note end"' : ' class="note"'),
  ].join('\n');
}

/** Marks where the time is not drawn to scale. */
function quietMarks({ x, quiet }: Scale, bottom: number): string {
  return quiet
    .map(({ from, to }) => {
      const middle = (x(from) + x(to)) / 2;
      return (
        `<path class="quiet" d="M${middle - 4} 70 l8 6 l-8 6 l8 6 V${bottom}" />` +
        text(middle, 62, duration(to - from), ' class="note mid"')
      );
    })
    .join('\n');
}

const STYLE = `
    .paper { fill: #ffffff; }
    .window { fill: #c9d6e3; }
    .pageout { fill: #e69f00; }
    .refine { fill: #009e73; }
    .prefetch { fill: #0072b2; }
    .tick { fill: none; stroke: #44525f; stroke-width: 1.2; }
    .quiet { fill: none; stroke: #9aa5b1; stroke-dasharray: 3 3; }
    text { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 13px; fill: #1d2730; }
    .title { font-size: 15px; font-weight: 600; }
    .name { font-weight: 600; }
    .note { font-size: 12px; fill: #55626e; }
    .mid { text-anchor: middle; }
    .end { text-anchor: end; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #14191f; }
      .window { fill: #3d4c5c; }
      .tick { stroke: #aebac6; }
      .quiet { stroke: #63707e; }
      text { fill: #e4eaf0; }
      .note { fill: #a8b4c0; }
    }`;

/** A trace as an SVG picture: the window with its events, below it a bar for each step. */
export function waterfall({ window, steps }: Trace): string {
  const moments = [window, ...steps].flatMap(({ from, to, events }) => [
    from,
    to,
    ...events.map(({ at }) => at),
  ]);
  const scale = scaleOf(moments, PLOT.left, PLOT.right);
  const firstStep = ROW.first + ROW.events + 18;
  const height = firstStep + steps.length * ROW.height;
  const sandbox = String(window.attributes.get(ATTRIBUTES.sandbox) ?? 'a sandbox');
  const reason = String(window.attributes.get(ATTRIBUTES.endReason) ?? 'an unknown reason');
  const title = `A waiting window of ${sandbox}: ${duration(window.to - window.from)}, ended by ${reason}`;
  const named = steps.map((step) => `${step.name.replace('agentzip.', '')}: ${facts(step)}`).join('; ');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title desc">
  <title id="title">${escape(title)}</title>
  <desc id="desc">${escape(named)}</desc>
  <style>${STYLE}
  </style>
  <rect class="paper" width="${WIDTH}" height="${height}" rx="8" />
${[
  text(16, 30, title, ' class="title"'),
  scale.quiet.length > 0
    ? text(PLOT.right, 30, 'dashed: so long nothing new, not to scale', ' class="note end"')
    : '',
  quietMarks(scale, height - 16),
  text(16, ROW.first + 14, 'window', ' class="name"'),
  bar(window, ROW.first, scale),
  eventLabels(window.events, window.from, ROW.first, scale),
  ...steps.map((step, i) => stepRow(step, firstStep + i * ROW.height, scale)),
].join('\n')}
</svg>
`;
}
