import * as Plot from '@observablehq/plot';
import type { Spread } from '../stats.js';
import {
  chart,
  illustration,
  type Key,
  legend,
  type Shape,
  logTicks,
  responsive,
  table,
  WIDE,
} from './chart.js';
import { figure, isFigure, percent, plain, spreadFigure, times } from './format.js';
import type { BenchResult } from '../result.js';
import { type Box, leaderEnd, type Placed, placeLabels } from './labels.js';
import { html, type Markup } from './markup.js';
import { colourOf, PAPER, roleOf } from './systems.js';

interface Spot {
  label: string;
  role: ReturnType<typeof roleOf> | 'paper';
  colour: string;
  reduction: Spread;
  slowdown: Spread;
}

const exactly = (value: number): Spread => ({ median: value, min: value, max: value });

/** Every system as a point: how much less memory against how much longer it took. */
export function tradeoffPlot(result: BenchResult): Markup {
  const spots = spotsOf(result);
  const runs = result.runs > 1 ? `; crosses span the ${result.runs} runs, the mark is their median` : '';
  return illustration({
    id: 'tradeoff',
    title: 'Memory reduction against slowdown',
    caption: html`Up is less memory, left is faster. Reduction: time average, template not counted${runs}. The
    diamonds are the AgentZip paper's own results as reported by readers of ${PAPER.source}, on its authors'
    machines and repositories: they are not measurements of this page.`,
    body: html`${legend(keysOf(spots))}${responsive((width) => scatter(spots, width))}`,
    data: table({
      head: ['system', 'reduction', 'slowdown, wall time', 'less memory'],
      rows: [
        ...result.systems.map(({ system, runs: n, reductionTemplateFree: r, slowdownWall }) => [
          system,
          spreadFigure(r, n, times),
          spreadFigure(slowdownWall, n, times),
          percent(1 - 1 / r.median),
        ]),
        ...PAPER.points.map(({ setting, reduction, slowdown, lessPercent }) => [
          `AgentZip paper, ${setting} (reported)`,
          figure(reduction, (value) => `${plain(value)}x`),
          figure(slowdown, (value) => `${plain(value)}x`),
          `${lessPercent} %`,
        ]),
      ],
    }),
  });
}

function spotsOf({ systems }: BenchResult): Spot[] {
  const order = { agentzip: 0, none: 1, paper: 2, other: 3, ablation: 4 };
  const measured = systems
    .filter((s) => isFigure(s.reductionTemplateFree.median) && isFigure(s.slowdownWall.median))
    .map(({ system, reductionTemplateFree, slowdownWall }): Spot => {
      const [role, colour] = [roleOf(system), colourOf(system)];
      return { label: system, role, colour, reduction: reductionTemplateFree, slowdown: slowdownWall };
    });
  const reported = PAPER.points.map(({ name, reduction, slowdown }): Spot => {
    const [role, colour] = ['paper' as const, 'var(--paper)'];
    return { label: name, role, colour, reduction: exactly(reduction), slowdown: exactly(slowdown) };
  });
  return [...measured, ...reported].sort((a, b) => order[a.role] - order[b.role]);
}

const ROLE_NAMES: Record<Spot['role'], string> = {
  agentzip: 'AgentZip',
  none: 'no memory system',
  ablation: 'AgentZip with one thing off or changed',
  other: 'other systems',
  paper: "the AgentZip paper's own results, as reported",
};

const shapeOf = (role: Spot['role']): { mark: Shape; hollow: boolean } => ({
  mark: role === 'paper' ? 'diamond' : role === 'other' ? 'square' : 'circle',
  hollow: role === 'ablation' || role === 'paper',
});

function keysOf(spots: readonly Spot[]): Key[] {
  const roles = [...new Set(spots.map(({ role }) => role))];
  return roles.map((role) => ({ colour: `var(--${role})`, label: ROLE_NAMES[role], ...shapeOf(role) }));
}

const MARGINS = { marginLeft: 46, marginRight: 16, marginTop: 26, marginBottom: 40 };

/** The plot's ranges, and the way from figures to pixels and back. */
interface Axes {
  height: number;
  x: [number, number];
  y: [number, number];
  frame: Box;
  atX: (slowdown: number) => number;
  atY: (reduction: number) => number;
  fromX: (pixel: number) => number;
  fromY: (pixel: number) => number;
}

function axesOf(spots: readonly Spot[], width: number): Axes {
  const height = width === WIDE ? 460 : 420;
  const reductions = spots.flatMap(({ reduction }) => [reduction.min, reduction.max]);
  const slowdowns = spots.flatMap(({ slowdown }) => [slowdown.min, slowdown.max]);
  const span = Math.max(...slowdowns) - Math.min(1, ...slowdowns);
  const x: Axes['x'] = [Math.min(1, ...slowdowns) - span * 0.06, Math.max(...slowdowns) + span * 0.1];
  const y: Axes['y'] = [Math.min(1, ...reductions) / 1.2, Math.max(...reductions) * 1.25];
  const { marginLeft: left, marginRight, marginTop: top, marginBottom } = MARGINS;
  const frame = { left, right: width - marginRight, top, bottom: height - marginBottom };
  const [across, up] = [frame.right - left, frame.bottom - top];
  return {
    ...{ height, x, y, frame },
    atX: (slowdown) => left + ((slowdown - x[0]) / (x[1] - x[0])) * across,
    atY: (reduction) => frame.bottom - (Math.log(reduction / y[0]) / Math.log(y[1] / y[0])) * up,
    fromX: (pixel) => x[0] + ((pixel - left) / across) * (x[1] - x[0]),
    fromY: (pixel) => y[0] * (y[1] / y[0]) ** ((frame.bottom - pixel) / up),
  };
}

function labelsOf(spots: readonly Spot[], { atX, atY, frame }: Axes): Placed[] {
  const line = 1; // pixel
  const crosses = spots.flatMap(({ reduction: r, slowdown: s }) => [
    { left: atX(s.min), right: atX(s.max), top: atY(r.median) - line, bottom: atY(r.median) + line },
    { left: atX(s.median) - line, right: atX(s.median) + line, top: atY(r.max), bottom: atY(r.min) },
  ]);
  const references = [
    { ...frame, top: atY(1) - line, bottom: atY(1) + line },
    { ...frame, left: atX(1) - line, right: atX(1) + line },
  ];
  const points = spots.map(({ label, slowdown, reduction }) => ({
    ...{ label, x: atX(slowdown.median), y: atY(reduction.median) },
  }));
  return placeLabels(points, frame, [...crosses, ...references]);
}

function scatter(spots: readonly Spot[], width: number): Markup {
  const axes = axesOf(spots, width);
  const { height, x, y, frame, fromX, fromY } = axes;
  const labels = labelsOf(spots, axes);
  const [across, up] = [width / 120, logTicks(y[0], y[1])];
  return chart('memory reduction against slowdown', {
    ...{ ...MARGINS, width, height },
    x: { domain: x },
    y: { type: 'log', domain: y },
    marks: [
      Plot.gridX({ ticks: across, stroke: 'var(--grid)', strokeOpacity: 1 }),
      Plot.gridY({ ticks: up, stroke: 'var(--grid)', strokeOpacity: 1 }),
      Plot.axisX({
        ...{ ticks: across, tickFormat: (value: number) => `${Number(value.toFixed(2))}x` },
        ...{ label: 'slowdown: wall time ÷ wall time of none', labelArrow: 'none', labelAnchor: 'center' },
      }),
      Plot.axisY({
        ...{ ticks: up, tickFormat: (value: number) => `${value}x` },
        ...{ label: 'reduction: times less memory (logarithmic)', labelArrow: 'none' },
      }),
      Plot.ruleX([1], { stroke: 'var(--axis)' }),
      Plot.ruleY([1], { stroke: 'var(--axis)' }),
      ...whiskers(spots),
      ...labels.filter(({ led }) => led).map(leader),
      ...labels.map(text),
      ...spots.map(mark),
    ],
  });

  function leader(label: Placed) {
    const [toX, toY] = leaderEnd(label);
    const ends = [fromX(label.x), fromY(label.y), fromX(toX), fromY(toY)];
    return Plot.link([ends], {
      x1: '0',
      y1: '1',
      x2: '2',
      y2: '3',
      stroke: 'var(--axis)',
      strokeWidth: 0.75,
    });
  }

  function text({ label, textX, textY }: Placed) {
    const { role, colour } = spots.find((spot) => spot.label === label) as Spot;
    return Plot.text([label], {
      ...{ x: null, y: null, frameAnchor: 'top-left' as const, textAnchor: 'start' as const },
      ...{ dx: textX - frame.left, dy: textY - frame.top, lineAnchor: 'middle' as const },
      ...{ fill: colour, fontWeight: role === 'agentzip' ? 700 : 400 },
      ...{ stroke: 'var(--card)', strokeWidth: 4 },
    });
  }
}

const whiskers = (spots: readonly Spot[]) =>
  spots.flatMap(({ reduction: r, slowdown: s, colour }) => [
    Plot.ruleX([r], { x: s.median, y1: 'min', y2: 'max', stroke: colour }),
    Plot.ruleY([s], { y: r.median, x1: 'min', x2: 'max', stroke: colour }),
  ]);

function mark({ label, role, colour, reduction, slowdown }: Spot) {
  const { mark: symbol, hollow } = shapeOf(role);
  return Plot.dot([label], {
    ...{ x: [slowdown.median], y: [reduction.median], r: role === 'agentzip' ? 7 : 5 },
    symbol,
    ...{ fill: hollow ? 'var(--card)' : colour, stroke: hollow ? colour : 'var(--card)' },
    strokeWidth: hollow ? 2 : 1,
    title: () => `${label}: ${times(reduction.median)} less memory at ${times(slowdown.median)} wall time`,
  });
}
