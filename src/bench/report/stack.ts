import * as Plot from '@observablehq/plot';
import { CHARACTER, chart, marginFor, WIDE } from './chart.js';
import type { Markup } from './markup.js';

export interface Bar {
  name: string;
  /** `ink`: colour of a label inside. */
  parts: { value: number; colour: string; ink?: string; label: string }[];
  /** Said at the bar's end. */
  total: string;
}

export interface Stack {
  name: string;
  bars: readonly Bar[];
  unit: string;
  width: number;
  /** Labels of the parts go into them, where they fit. */
  inside: boolean;
  /** End of the axis. Default: the longest bar. */
  to?: number;
}

const ROW = 30;

/** Horizontal stacked bars, one a system; on narrow screens the name stands above its bar. */
export function stackedBars({ name, bars, unit, width, inside, to }: Stack): Markup {
  const wide = width === WIDE;
  const names = bars.map((bar) => bar.name);
  const end =
    to ?? Math.max(...bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0)), 1e-9);
  const marginLeft = wide ? marginFor(names) : 4;
  const marginRight = wide ? CHARACTER * Math.max(...bars.map(({ total }) => total.length)) + 14 : 10;
  const row = wide ? ROW : ROW + 16;
  const pixels = (width - marginLeft - marginRight) / end;
  const pieces = bars.flatMap((bar) => {
    let from = 0;
    return bar.parts.map((part) => ({ ...part, bar: bar.name, from, to: (from += part.value) }));
  });
  const ends = bars.map((bar) => ({ ...bar, at: bar.parts.reduce((sum, { value }) => sum + value, 0) }));
  const band = { insetTop: wide ? 4 : 20, insetBottom: 4 };
  return chart(name, {
    ...{ width, height: row * bars.length + 44, marginLeft, marginRight, marginTop: 4, marginBottom: 40 },
    x: { domain: [0, end], label: unit, labelArrow: 'none', labelAnchor: 'center', ticks: wide ? 10 : 5 },
    y: { type: 'band', domain: names, label: null, padding: 0, axis: wide ? 'left' : null, tickSize: 0 },
    marks: [
      Plot.gridX({ ticks: wide ? 10 : 5, stroke: 'var(--grid)', strokeOpacity: 1 }),
      Plot.barX(
        pieces.filter(({ value }) => value > 0),
        {
          ...{ x1: 'from', x2: 'to', y: 'bar', fill: (d: { colour: string }) => d.colour, ...band },
          ...{ stroke: 'var(--card)', strokeWidth: 0.75 },
          title: (d: { bar: string; label: string }) => `${d.bar}: ${d.label}`,
        },
      ),
      ...(inside
        ? [
            Plot.text(
              pieces.filter(({ value, label }) => value * pixels > label.length * CHARACTER + 8),
              {
                ...{ x: (d: { from: number; to: number }) => (d.from + d.to) / 2, y: 'bar', text: 'label' },
                ...{ fill: (d: { ink?: string }) => d.ink ?? 'var(--on-mark)', dy: wide ? 0 : 8 },
              },
            ),
          ]
        : []),
      ...(wide
        ? [Plot.text(ends, { x: 'at', y: 'name', text: 'total', textAnchor: 'start', dx: 8 })]
        : [
            Plot.text(ends, {
              ...{ x: 0, y: 'name', textAnchor: 'start', frameAnchor: 'left', dy: -row / 2 + 11 },
              ...{ text: (d: { name: string; total: string }) => `${d.name}: ${d.total}` },
            }),
          ]),
    ],
  });
}
