import { illustration, legend, responsive, table } from './chart.js';
import { percent, seconds, spreadFigure } from './format.js';
import type { BenchResult } from '../result.js';
import { html, type Markup } from './markup.js';
import { type Bar, stackedBars } from './stack.js';

const PARTS = [
  ['tools', 'sandboxes', 'var(--none)'],
  ['controller', 'controller', 'var(--hue-1)'],
  ['pager', 'pager', 'var(--hue-2)'],
  ['kernel', 'kernel threads', 'var(--hue-3)'],
] as const;

/** Processor time of a run by who used it. */
export function cpuPlot(result: BenchResult): Markup {
  const bars = result.systems.map(({ system, cpuSeconds, busyShare }): Bar => {
    const parts = PARTS.map(([key, label, colour]) => {
      const value = cpuSeconds[key]?.median || 0;
      return { value, colour, label: `${label} ${seconds(value)}` };
    });
    const total = parts.reduce((sum, { value }) => sum + value, 0);
    return { name: system, parts, total: `${seconds(total)}, ${percent(busyShare.median)} busy` };
  });
  return illustration({
    id: 'cpu',
    title: 'Processor time, by who used it',
    caption: html`Seconds of processor time of one run, medians; and how busy the machine's
    ${result.host.cpus} cores were, all processes together.`,
    body: html`${legend(PARTS.map(([, label, colour]) => ({ colour, label })))}${responsive((width) =>
      stackedBars({ name: 'processor time', bars, unit: 'seconds of processor time', width, inside: false }),
    )}`,
    data: table({
      head: ['system', ...PARTS.map(([, label]) => label), 'machine busy'],
      rows: result.systems.map(({ system, runs, cpuSeconds, busyShare }) => [
        system,
        ...PARTS.map(([key]) => spreadFigure(cpuSeconds[key], runs, seconds)),
        spreadFigure(busyShare, runs, percent),
      ]),
    }),
  });
}
