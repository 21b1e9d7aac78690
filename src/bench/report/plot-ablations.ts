import * as Plot from '@observablehq/plot';
import type { Spread } from '../stats.js';
import { chart, illustration, marginFor, type Panel, panels, responsive, table, WIDE } from './chart.js';
import { figure, isFigure, spreadFigure, times } from './format.js';
import type { BenchResult, SystemResult } from '../result.js';
import { html, type Markup } from './markup.js';
import { colourOf, named, roleOf } from './systems.js';

/** Two panels stand side by side, on phones one above the other. */
const HALF = 450;
const ROW = 26;
/** Pixels right of the bars for their values. */
const VALUES = 54;

interface Measure {
  title: string;
  unit: string;
  pick: (system: SystemResult) => Spread;
  /** Where a bar begins: at what it is without a system. */
  zero: number;
}

const MEASURES: readonly Measure[] = [
  {
    title: 'Reduction',
    unit: 'times less memory, time average, template not counted',
    pick: (system) => system.reductionTemplateFree,
    zero: 0,
  },
  {
    title: 'Slowdown',
    unit: 'wall time ÷ wall time of none; bars begin at 1x',
    pick: (system) => system.slowdownWall,
    zero: 1,
  },
];

/** AgentZip with one thing off or changed at a time; nothing when no such system was run. */
export function ablationsPlot(result: BenchResult): Markup | null {
  const whole = named(result, 'agentzip');
  const variants = result.systems.filter(({ system }) => roleOf(system) === 'ablation');
  if (whole === undefined || variants.length === 0) return null;
  const systems = [whole, ...variants];
  const change = (spread: (s: SystemResult) => Spread) => (system: SystemResult) =>
    system === whole ? '' : figure(spread(system).median / spread(whole).median, times);
  return illustration({
    id: 'ablations',
    title: 'What each part of AgentZip brings',
    caption: html`Each row is AgentZip with one thing off or changed; the dashed line is AgentZip as it is.
    ${result.runs > 1 ? 'Lines across the bar ends span the runs.' : ''}`,
    body: responsive((width) =>
      panels(
        MEASURES.map((measure) => panel(measure, systems, whole, width === WIDE ? HALF : width)),
        'two',
      ),
    ),
    data: table({
      head: ['system', 'reduction', '÷ agentzip', 'slowdown', '÷ agentzip'],
      rows: systems.map((system) => [
        system.system,
        spreadFigure(system.reductionTemplateFree, system.runs, times),
        change(MEASURES[0].pick)(system),
        spreadFigure(system.slowdownWall, system.runs, times),
        change(MEASURES[1].pick)(system),
      ]),
    }),
  });
}

function panel(
  { title, unit, pick, zero }: Measure,
  systems: readonly SystemResult[],
  whole: SystemResult,
  width: number,
): Panel {
  const names = systems.map(({ system }) => system);
  const rows = systems
    .map((system) => ({ name: system.system, colour: colourOf(system.system), ...pick(system) }))
    .filter(({ median }) => isFigure(median));
  const greatest = Math.max(zero + 0.05, ...rows.map(({ max }) => max));
  const least = Math.min(zero, ...rows.map(({ min }) => min));
  const ticks = width < HALF ? 3 : 5;
  const marginLeft = marginFor(names);
  const marginRight = VALUES + 4;
  return {
    title,
    aside: unit,
    chart: chart(`${title} of AgentZip and its ablations`, {
      ...{
        width,
        height: ROW * rows.length + 32,
        marginLeft,
        marginRight,
        marginTop: 4,
        marginBottom: 26,
      },
      x: { domain: [least, greatest], label: null, ticks, tickFormat: (value: number) => `${value}x` },
      y: { type: 'band', domain: names, label: null, padding: 0.3, tickSize: 0 },
      marks: [
        Plot.gridX({ ticks, stroke: 'var(--grid)', strokeOpacity: 1 }),
        Plot.barX(rows, { x1: zero, x2: 'median', y: 'name', fill: (d: Row) => d.colour }),
        Plot.ruleX([zero], { stroke: 'var(--axis)' }),
        Plot.ruleX([pick(whole).median], { stroke: 'var(--agentzip)', strokeDasharray: '3,3' }),
        Plot.link(
          rows.filter(({ min, max }) => max > min),
          {
            ...{ x1: 'min', x2: 'max', y1: 'name', y2: 'name', stroke: 'var(--ink)', strokeWidth: 1.25 },
          },
        ),
        Plot.text(rows, {
          ...{ y: 'name', text: (d: Row) => times(d.median), fill: 'var(--ink)', fontWeight: 600 },
          ...{ frameAnchor: 'right' as const, textAnchor: 'end' as const, dx: VALUES },
        }),
      ],
    }),
  };
}

type Row = Spread & { name: string; colour: string };
