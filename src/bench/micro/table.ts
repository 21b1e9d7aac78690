import type { Spread } from '../stats.js';
import { MICRO_SYSTEMS, type MicroResult, type SystemFigures } from './result.js';

const LABEL = 28;
const COLUMN = 17;

/** Rows of the table: label, name of the figure, decimals, factor. */
const ROWS: readonly [label: string, name: string, decimals: number, factor?: number][] = [
  ['random fault p50, µs', 'faultP50Us', 1],
  ['random fault p90, µs', 'faultP90Us', 1],
  ['random fault p99, µs', 'faultP99Us', 1],
  ['page-out, MB/s', 'pageoutMBps', 0],
  ['  without release, MB/s', 'pageoutUnreleasedMBps', 0],
  ['restore in order, MB/s', 'restoreMBps', 0],
  ['stored, bytes a page', 'storedBytesPerPage', 0],
  ['refine, MB/s a core', 'refineMBpsPerCore', 1],
  ['prefetch, MB/s', 'prefetchMBps', 0],
  ['metadata, bytes a page', 'metadataBytesPerPage', 1],
  ['  resident, bytes a page', 'metadataHeldBytesPerPage', 1],
  ['arena fragmentation, %', 'fragmentation', 1, 100],
  ['raw page: fault p50, µs', 'rawFaultP50Us', 1],
  ['raw page: fault p99, µs', 'rawFaultP99Us', 1],
  ['raw page: page-out, MB/s', 'devicePageoutMBps', 0],
  ['raw page: restore, MB/s', 'rawRestoreMBps', 0],
];

/** The figures for people: medians with the range of the rounds below them, at most 80 columns wide. */
export function microTable(result: MicroResult): string {
  const { host, rounds, seed, subjectMiB, tier, faults, load } = result;
  const systems = MICRO_SYSTEMS.map((name) => result[name]);
  const measured = systems.map((figures) => ('spread' in figures ? figures : null));
  const lines = [
    '',
    `micro: ${subjectMiB} MiB, tier ${tier}, ${faults} faults, ${rounds} round(s), seed ${seed}`,
    `${host.cpus} cores, ${(host.memoryBytes / 2 ** 30).toFixed(0)} GiB, Linux ${host.kernel}, load ${load.min.toFixed(1)}–${load.max.toFixed(1)}`,
    '',
    row('median (range of rounds)', [...MICRO_SYSTEMS]),
  ];
  for (const [label, name, decimals, factor = 1] of ROWS) {
    if (measured.every((figures) => figures?.spread[name] === undefined)) continue;
    const cells = measured.map((figures) => figures?.spread[name]);
    lines.push(
      row(
        label,
        cells.map((of) => (of === undefined ? '-' : (of.median * factor).toFixed(decimals))),
      ),
    );
    if (rounds > 1)
      lines.push(
        row(
          '',
          cells.map((of) => range(of, decimals, factor)),
        ),
      );
  }
  lines.push('', ...MICRO_SYSTEMS.flatMap((name, i) => remarks(name, systems[i])), '');
  return lines.join('\n');
}

const row = (label: string, cells: readonly string[]): string =>
  `${label.padEnd(LABEL)}${cells.map((cell) => cell.padStart(COLUMN)).join('')}`.trimEnd();

const range = (of: Spread | undefined, decimals: number, factor: number): string =>
  of === undefined ? '' : `(${(of.min * factor).toFixed(decimals)}–${(of.max * factor).toFixed(decimals)})`;

function remarks(name: string, figures: SystemFigures | { unavailable: string }): string[] {
  if ('unavailable' in figures) return [`${name}: not measured: ${figures.unavailable}`];
  return [`${name}: ${figures.description}`, ...figures.notes.map((note) => `  ${note}`)];
}
