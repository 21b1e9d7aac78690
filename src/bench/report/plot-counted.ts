import * as Plot from '@observablehq/plot';
import { chart, illustration, legend, logTicks, marginFor, responsive, table, WIDE } from './chart.js';
import { isFigure, spreadFigure, times } from './format.js';
import type { BenchResult, SystemResult } from '../result.js';
import { html, type Markup } from './markup.js';

/** Ways to count, the kindest to a system first as a rule. */
const WAYS = [
  { key: 'reductionAtWaitEnd', label: 'when waits end', colour: 'var(--hue-2)', symbol: 'triangle' },
  { key: 'reductionTemplateFree', label: 'time average', colour: 'var(--hue-1)', symbol: 'circle' },
  { key: 'reductionTemplateCharged', label: '… and template', colour: 'var(--hue-3)', symbol: 'square' },
  { key: 'reductionAllIn', label: '… and everything it costs', colour: 'var(--hue-4)', symbol: 'diamond' },
  { key: 'peakReduction', label: 'peak over peak', colour: 'var(--hue-5)', symbol: 'star' },
] as const;

/** Pixels between the marks of one system, so that equal figures do not hide each other. */
const APART = 3;

/** How much of a reduction is left when more is counted. */
export function countedPlot(result: BenchResult): Markup {
  return illustration({
    id: 'counted',
    title: 'What the reduction becomes when more is counted',
    caption: html`Times less memory than without a system, counted five ways. Left of 1x the system costs more
    memory than it saves.`,
    body: html`${legend(WAYS.map(({ colour, label, symbol }) => ({ colour, label, mark: symbol })))}${responsive(
      (width) => dots(result.systems, width),
    )}`,
    data: table({
      head: ['system', ...WAYS.map(({ label }) => label)],
      rows: result.systems.map((system) => [
        system.system,
        ...WAYS.map(({ key }) => spreadFigure(system[key], system.runs, times)),
      ]),
    }),
  });
}

function dots(systems: readonly SystemResult[], width: number): Markup {
  const names = systems.map(({ system }) => system);
  const points = systems.flatMap((system) =>
    WAYS.map(({ key, label }): Dot => ({ label, system: system.system, value: system[key].median })).filter(
      ({ value }) => isFigure(value) && value > 0,
    ),
  );
  const values = points.map(({ value }) => value);
  const x = [Math.min(0.9, ...values) / 1.1, Math.max(2, ...values) * 1.1];
  const ticks = logTicks(x[0], x[1]);
  return chart('reduction counted in several ways', {
    ...{ width, height: 60 + 30 * names.length, marginLeft: marginFor(names), marginRight: 18 },
    ...{ marginTop: 8, marginBottom: 40 },
    x: { type: 'log', domain: x },
    y: { type: 'point', domain: names, label: null },
    marks: [
      Plot.gridX({ ticks, stroke: 'var(--grid)', strokeOpacity: 1 }),
      Plot.axisX({
        ...{ ticks: width === WIDE ? ticks : ticks.filter((tick) => /^[0.]*1/.test(String(tick))) },
        tickFormat: (value: number) => `${value}x`,
        ...{ label: 'times less memory (logarithmic)', labelArrow: 'none', labelAnchor: 'center' },
      }),
      Plot.axisY({ tickSize: 0, tickPadding: 8 }),
      Plot.ruleX([1], { stroke: 'var(--axis)', strokeWidth: 1.5 }),
      Plot.ruleY(
        points,
        Plot.groupY(
          { x1: 'min', x2: 'max' },
          {
            ...{ x1: 'value', x2: 'value', y: 'system', stroke: 'var(--grid)', strokeWidth: 20 },
          },
        ),
      ),
      ...WAYS.map(({ label, symbol, colour }, i) =>
        Plot.dot(
          points.filter((point) => point.label === label),
          {
            ...{
              x: 'value',
              y: 'system',
              symbol,
              r: 4.5,
              fill: colour,
              stroke: 'var(--card)',
              strokeWidth: 1,
            },
            dy: (i - (WAYS.length - 1) / 2) * APART,
            title: (d: Dot) => `${d.system}, ${d.label}: ${times(d.value)}`,
          },
        ),
      ),
    ],
  });
}

interface Dot {
  system: string;
  label: string;
  value: number;
}
