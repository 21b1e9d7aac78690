import { illustration, legend, responsive, table } from './chart.js';
import { count, figure, percent } from './format.js';
import type { BenchResult } from '../result.js';
import { html, type Markup } from './markup.js';
import { type Bar, stackedBars } from './stack.js';

interface Look {
  label: string;
  colour: string;
  ink?: string;
}

/** Known encodings, the cheapest first: blue stores nothing of its own, green and yellow are compressed, grey is whole. */
const ENCODINGS: Record<string, Look> = {
  same: { label: 'same: one byte value or word', colour: 'var(--nothing-1)', ink: 'var(--on-dark)' },
  duplicate: { label: 'duplicate of a stored page', colour: 'var(--nothing-2)', ink: 'var(--on-dark)' },
  template: { label: 'equal to a template page', colour: 'var(--nothing-3)' },
  sparse: { label: 'a few words of a base changed', colour: 'var(--sparse)' },
  delta: { label: 'delta against a base', colour: 'var(--delta)' },
  clustered: { label: 'zstd together with others', colour: 'var(--clustered)' },
  dictionary: { label: 'zstd with a dictionary', colour: 'var(--dictionary)' },
  zstd: { label: 'zstd', colour: 'var(--zstd)' },
  raw: { label: 'raw', colour: 'var(--raw)', ink: 'var(--on-dark)' },
  staged: { label: 'staged: not compressed yet', colour: 'var(--staged)' },
};
const describe = (name: string): Look => ENCODINGS[name] ?? { label: name, colour: 'var(--hue-5)' };

interface Stored {
  system: string;
  encodings: Record<string, number>;
}

/** How the pages that were out were stored; nothing when no system of the comparison has a store. */
export function encodingsPlot(result: BenchResult): Markup | null {
  const systems = result.systems
    .map(({ system, encodings }): Stored => ({ system, encodings: { ...encodings } }))
    .filter(({ encodings }) => pagesOf(encodings) > 0);
  if (systems.length === 0) return null;
  const names = [
    ...new Set([...Object.keys(ENCODINGS), ...systems.flatMap((s) => Object.keys(s.encodings))]),
  ];
  const used = names.filter((name) => systems.some(({ encodings }) => (encodings[name] ?? 0) > 0));
  const bars = systems.map(({ system, encodings }): Bar => {
    const total = pagesOf(encodings);
    return {
      name: system,
      parts: used.map((name) => {
        const share = (encodings[name] ?? 0) / total;
        return { value: 100 * share, ...describe(name), label: `${Math.round(100 * share)} %` };
      }),
      total: `${count(total)} pages`,
    };
  });
  return illustration({
    id: 'encodings',
    title: 'Pages by encoding, when most pages were out',
    caption: html`Share of the pages that were out in the last run of each system with a page store, and how
    many they were.`,
    body: html`${legend(used.map(describe))}${responsive((width) =>
      stackedBars({ name: 'pages by encoding', bars, unit: '% of pages out', width, inside: true, to: 100 }),
    )}`,
    data: table({
      head: ['encoding', ...systems.map(({ system }) => system)],
      rows: used.map((name) => [
        describe(name).label,
        ...systems.map(({ encodings }) => {
          const pages = encodings[name] ?? 0;
          return html`${figure(pages, count)} <small>${percent(pages / pagesOf(encodings))}</small>`;
        }),
      ]),
    }),
  });
}

const pagesOf = (encodings: Record<string, number>): number =>
  Object.values(encodings).reduce((sum, pages) => sum + pages, 0);
