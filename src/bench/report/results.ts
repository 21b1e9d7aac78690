import type { Spread } from '../stats.js';
import {
  count,
  type Format,
  figure,
  mib,
  ms,
  msAsSeconds,
  percent,
  seconds,
  spreadFigure,
  times,
} from './format.js';
import type { BenchResult, SystemResult } from '../result.js';
import { html, type Markup, type Part } from './markup.js';
import { roleOf } from './systems.js';

interface Row {
  label: string;
  cell: (system: SystemResult) => Part;
}

interface Group {
  title: string;
  rows: Row[];
}

const MEMORY_LABELS: Record<string, string> = {
  ownedMean: 'owned, time average',
  poolMean: 'compressed pool, time average',
  baseMean: 'template pages as bases, time average',
  overheadMean: "the system's own processes, time average",
  swapCacheMean: 'swap cache, time average',
  waitEndMean: 'one sandbox when its wait ends',
  peak: 'owned + pool, peak',
};
const CPU_LABELS: Record<string, string> = { tools: 'sandboxes', kernel: 'kernel threads' };

/** Every figure of every system: a row a figure, a column a system. */
export function resultsTable({ systems }: BenchResult): Markup {
  return html`<div class="scroll">
    <table class="results">
      <thead>
        <tr>
          <td></td>
          ${systems.map(({ system }) => html`<th scope="col" class="${roleOf(system)}">${system}</th>`)}
        </tr>
      </thead>
      ${groupsOf(systems).map(
        ({ title, rows }) =>
          html`<tbody>
            <tr class="group">
              <th scope="rowgroup" colspan="${systems.length + 1}"><span>${title}</span></th>
            </tr>
            ${rows.map(
              ({ label, cell }) =>
                html`<tr>
                  <th scope="row">${label}</th>
                  ${systems.map((system) => html`<td class="${roleOf(system.system)}">${cell(system)}</td>`)}
                </tr>`,
            )}
          </tbody>`,
      )}
    </table>
  </div>`;
}

function groupsOf(systems: readonly SystemResult[]): Group[] {
  const spreads = (label: string, pick: (s: SystemResult) => Spread, format: Format): Row => ({
    label,
    cell: (system) => spreadFigure(pick(system), system.runs, format),
  });
  const number = (label: string, pick: (s: SystemResult) => number | undefined, format: Format): Row => ({
    label,
    cell: (system) => figure(pick(system), format),
  });
  const keys = (pick: (s: SystemResult) => object | null): string[] => [
    ...new Set(systems.flatMap((system) => Object.keys(pick(system) ?? {}))),
  ];
  const groups: Group[] = [
    {
      title: 'Times less memory',
      rows: [
        spreads('time average, template not counted', (s) => s.reductionTemplateFree, times),
        spreads('time average, template charged once', (s) => s.reductionTemplateCharged, times),
        spreads('time average, all costs included', (s) => s.reductionAllIn, times),
        spreads('when waits end', (s) => s.reductionAtWaitEnd, times),
        spreads('peak over peak', (s) => s.peakReduction, times),
      ],
    },
    {
      title: 'Time',
      rows: [
        spreads('wall time', (s) => s.wallMs, msAsSeconds),
        spreads('slowdown, wall time', (s) => s.slowdownWall, times),
        ...quantiles('tool call', (s) => s.toolMs, ms),
        ...quantiles('tool call, slowdown', (s) => s.toolSlowdown, times),
      ],
    },
    {
      title: 'Memory',
      rows: keys((s) => s.memory).map((key) =>
        spreads(MEMORY_LABELS[key] ?? key, (s) => (s.memory as Record<string, Spread>)[key], mib),
      ),
    },
    {
      title: 'Processor time',
      rows: [
        ...keys((s) => s.cpuSeconds).map((key) =>
          spreads(CPU_LABELS[key] ?? key, (s) => (s.cpuSeconds as Record<string, Spread>)[key], seconds),
        ),
        spreads('machine busy', (s) => s.busyShare, percent),
      ],
    },
    {
      title: 'Pages put back, of an average run',
      rows: [
        number('faults of tools on pages that were out', (s) => s.faults.demand, count),
        number('put back before the tool asked', (s) => s.faults.prefetched, count),
        number('of those not used', (s) => s.faults.wasted, count),
      ],
    },
    {
      title: 'Pages by encoding, when most were out',
      rows: keys((s) => s.encodings).map((key) =>
        number(key, (s) => (({ ...s.encodings }) as Record<string, number>)[key], count),
      ),
    },
    {
      title: 'Runs',
      rows: [
        number('runs', (s) => s.runs, count),
        {
          label: 'results identical',
          cell: (s) => (s.resultsIdentical ? 'yes' : html`<strong class="bad">NO</strong>`),
        },
      ],
    },
  ];
  return groups.filter(({ rows }) => rows.length > 0);
}

const quantiles = (label: string, pick: (s: SystemResult) => SystemResult['toolMs'], format: Format): Row[] =>
  (['p50', 'p95', 'p99'] as const).map((q) => ({
    label: `${label}, ${q}`,
    cell: (system) => figure(pick(system)[q], format),
  }));
