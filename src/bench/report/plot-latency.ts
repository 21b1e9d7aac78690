import * as Plot from '@observablehq/plot';
import { CHARACTER, chart, illustration, type Key, legend, logTicks, PANEL, panels, table } from './chart.js';
import { count, figure, isFigure, ms } from './format.js';
import type { BenchResult, SystemResult } from '../result.js';
import { html, type Markup } from './markup.js';
import { baselineOf, colourOf } from './systems.js';

/** The least latency an axis shows, ms: a logarithm needs one. */
const FLOOR_MS = 0.01;
const PERCENTILES = Array.from({ length: 101 }, (_, percentile) => percentile);

/** Tool latency of every system as a cumulative distribution, one panel a system, all on the same axes. */
export function latencyPlot(result: BenchResult): Markup {
  const reference = baselineOf(result);
  const all = result.systems.flatMap(({ toolLatencyMs }) => toolLatencyMs.filter(isFigure));
  const least = all.reduce((a, b) => Math.min(a, b), Infinity);
  const domain: [number, number] = [
    Math.max(FLOOR_MS, least === Infinity ? 1 : least),
    all.reduce((a, b) => Math.max(a, b), 10),
  ];
  const keys: Key[] = [
    { colour: 'var(--agentzip)', label: 'the system, with its 50th and 95th percentile', mark: 'line' },
    { colour: 'var(--none)', label: `${reference.system}, for comparison`, mark: 'line' },
  ];
  return illustration({
    id: 'latency',
    title: 'Tool latency: share of tool calls done within a time',
    caption: html`Over the tool calls of all runs; milliseconds, logarithmic. Further left is faster.`,
    body: html`${legend(keys)}${panels(
      result.systems.map((system) => ({
        title: system.system,
        aside: html`p50 ${ms(system.toolMs.p50)} · p95 ${ms(system.toolMs.p95)}`,
        chart: panel(system, reference, domain),
      })),
    )}`,
    data: html`${toolTable(result)}
      <h4>Percentiles of all tool calls</h4>
      ${table({
        head: ['percentile', ...result.systems.map(({ system }) => system)],
        rows: PERCENTILES.map((percentile) => [
          `${percentile}`,
          ...result.systems.map(({ toolLatencyMs }) => figure(toolLatencyMs[percentile], ms)),
        ]),
      })}`,
  });
}

function panel(
  { system, toolLatencyMs }: SystemResult,
  reference: SystemResult,
  x: [number, number],
): Markup {
  const curve = (latencies: readonly number[]) =>
    latencies
      .map((latency, percentile) => ({ latency: Math.max(latency, FLOOR_MS), percentile }))
      .filter(({ latency }) => isFigure(latency));
  const own = curve(toolLatencyMs);
  const colour = system === reference.system ? 'var(--none)' : colourOf(system);
  const marked = own.filter(({ percentile }) => percentile === 50 || percentile === 95);
  const decades = logTicks(x[0], x[1]).filter((tick) => /^[0.]*1/.test(String(tick)));
  const ticks = decades.length > 1 ? decades : logTicks(x[0], x[1]);
  // The last tick may stand at the very end, and half of its number beyond it.
  const marginRight = Math.max(14, Math.ceil((String(ticks.at(-1)).length * CHARACTER) / 2));
  const axes = { x: 'latency', y: 'percentile' };
  return chart(`tool latency under ${system}`, {
    ...{ width: PANEL, height: 180, marginLeft: 44, marginRight, marginBottom: 34, marginTop: 22 },
    x: { type: 'log', domain: x },
    y: { domain: [0, 100], label: '% of calls', labelArrow: 'none', ticks: [0, 25, 50, 75, 100] },
    marks: [
      Plot.gridY([0, 25, 50, 75, 100], { stroke: 'var(--grid)', strokeOpacity: 1 }),
      Plot.gridX(ticks, { stroke: 'var(--grid)', strokeOpacity: 1 }),
      Plot.axisX(ticks, { tickFormat: String, label: 'milliseconds', labelArrow: 'none' }),
      Plot.line(curve(reference.toolLatencyMs), { ...axes, stroke: 'var(--none)', strokeWidth: 1.5 }),
      Plot.line(own, { ...axes, stroke: colour, strokeWidth: 2.25 }),
      Plot.dot(marked, { ...axes, r: 3.5, fill: colour, stroke: 'var(--card)' }),
    ],
  });
}

/** Calls, median and 95th percentile of each tool under each system. */
function toolTable({ systems }: BenchResult): Markup {
  const tools = [...new Set(systems.flatMap((system) => Object.keys(system.tools)))];
  return html`<h4>By tool: calls, 50th and 95th percentile</h4>
    ${table({
      head: ['tool', ...systems.map(({ system }) => system)],
      rows: tools.map((tool) => [
        tool,
        ...systems.map(({ tools: of }) => {
          const { calls, p50, p95 } = of[tool] ?? {};
          return html`${figure(calls, count)} calls<br />${figure(p50, ms)}<br />${figure(p95, ms)}`;
        }),
      ]),
    })}`;
}
