import * as Plot from '@observablehq/plot';
import { chart, illustration, type Key, legend, PANEL, panels, table } from './chart.js';
import { figure, mib, seconds } from './format.js';
import type { BenchResult, SystemResult, Timeline } from '../result.js';
import { html, type Markup } from './markup.js';
import { mean } from '../stats.js';
import { baselineOf } from './systems.js';

const MIB = 2 ** 20;
/** Steps drawn, each the mean of as many samples as it takes; instants listed, one of as many as it takes. */
const DRAWN = 160;
const LISTED = 40;

/** From the bottom up. */
const LAYERS = [
  ['owned', 'owned by the sandboxes'],
  ['pool', 'compressed pool'],
  ['base', 'template pages used as bases'],
  ['overhead', "the system's own processes"],
  ['swapCache', 'swap cache'],
] as const;
type Layer = (typeof LAYERS)[number][0];

/** Memory of every system over the first run, one panel a system, all on the same axes. */
export function memoryPlot(result: BenchResult): Markup {
  const reference = baselineOf(result);
  const ends = result.systems.map(({ timeline }) => timeline.seconds.at(-1) ?? 0);
  const samples = Math.max(1, ...result.systems.map(({ timeline }) => timeline.seconds.length));
  const every = Math.ceil(samples / DRAWN);
  const tops = result.systems.flatMap(({ timeline }) => totals(averaged(timeline, every)));
  const axes: Axes = {
    x: [0, Math.max(1, ...ends)],
    y: [0, tops.reduce((a, b) => Math.max(a, b), MIB) / MIB],
    every,
  };
  const keys: Key[] = LAYERS.filter(([layer]) =>
    result.systems.some(({ timeline }) => timeline[layer].some((bytes) => bytes > 0)),
  ).map(([layer, label]) => ({ colour: `var(--${layer})`, label }));
  keys.push({
    colour: 'var(--none)',
    label: `owned under ${reference.system}, for comparison`,
    mark: 'line',
  });
  return illustration({
    id: 'memory',
    title: 'Memory over time, all sandboxes together',
    caption: html`Run 1 of each system, stacked; MiB over seconds since the first sandbox started. All panels
    have the same axes.
    ${every > 1 && `A step is the mean of ${every} samples, so that peaks are lower than in the table.`}`,
    body: html`${legend(keys)}${panels(
      result.systems.map((system) => ({
        title: system.system,
        aside: averages(system),
        chart: panel(system, reference, axes),
      })),
    )}`,
    data: html`${result.systems.map(instants)}`,
  });
}

function averages({ memory: { ownedMean, poolMean } }: SystemResult): string {
  const pool = poolMean.median > 0 ? ` + pool ${mib(poolMean.median)}` : '';
  return `average: owned ${mib(ownedMean.median)}${pool}`;
}

interface Axes {
  x: [number, number];
  y: [number, number];
  /** Samples a step. */
  every: number;
}

function panel({ system, timeline }: SystemResult, reference: SystemResult, { x, y, every }: Axes): Markup {
  const steps = averaged(timeline, every);
  const below = steps.seconds.map(() => 0);
  const areas = LAYERS.map(([layer]) => {
    const points = steps.seconds.map((second, i) => {
      const from = below[i];
      below[i] += steps[layer][i] / MIB;
      return { second, from, to: below[i] };
    });
    return Plot.areaY(points, {
      ...{ x: 'second', y1: 'from', y2: 'to', curve: 'step-after' as const, fill: `var(--${layer})` },
    });
  });
  const plain = averaged(reference.timeline, every);
  const compared = plain.seconds.map((second, i) => ({ second, owned: plain.owned[i] / MIB }));
  return chart(`memory over time under ${system}`, {
    ...{ width: PANEL, height: 180, marginLeft: 44, marginRight: 14, marginBottom: 34, marginTop: 22 },
    x: { domain: x, label: 'seconds', labelArrow: 'none', ticks: 5 },
    y: { domain: y, label: 'MiB', labelArrow: 'none', ticks: 4, nice: true },
    marks: [
      Plot.gridY({ ticks: 4, stroke: 'var(--grid)', strokeOpacity: 1 }),
      ...areas,
      Plot.lineY(compared, {
        ...{ x: 'second', y: 'owned', curve: 'step-after', stroke: 'var(--none)', strokeWidth: 1.5 },
      }),
      Plot.ruleY([0], { stroke: 'var(--axis)' }),
    ],
  });
}

const totals = (timeline: Timeline): number[] =>
  timeline.seconds.map((_, i) => LAYERS.reduce((sum, [layer]) => sum + timeline[layer][i], 0));

/** The timeline as means of `every` samples each; the last may be of fewer. */
function averaged({ seconds, ...layers }: Timeline, every: number): Timeline {
  const starts = seconds.map((_, i) => i).filter((i) => i % every === 0);
  const means = (values: readonly number[]): number[] => starts.map((i) => mean(values.slice(i, i + every)));
  const averages = Object.entries(layers).map(([layer, values]) => [layer, means(values)]);
  return { seconds: starts.map((i) => seconds[i]), ...Object.fromEntries(averages) };
}

function instants({ system, timeline }: SystemResult): Markup {
  const every = Math.max(1, Math.ceil(timeline.seconds.length / LISTED));
  const listed = timeline.seconds.map((_, i) => i).filter((i) => i % every === 0);
  const rest = every > 1 ? `, one sample of ${every}; the JSON below has all` : '';
  const cell = (layer: Layer, i: number): Markup => figure(timeline[layer][i], mib);
  return html`<h4>${system}${rest}</h4>
    ${table({
      head: ['time', ...LAYERS.map(([, label]) => label)],
      rows: listed.map((i) => [
        figure(timeline.seconds[i], seconds),
        ...LAYERS.map(([layer]) => cell(layer, i)),
      ]),
    })}`;
}
