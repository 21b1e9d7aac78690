import type { Times } from './decode-times.js';
import { type Encoding, ENCODINGS, type Use } from './figures.js';
import type { ReplayResult } from './result.js';

const MIB = 2 ** 20;
const LABEL = 34;
const COLUMN = 11;

const LABELS: Record<Encoding, string> = {
  same: 'same-filled',
  template: 'equal to a template page',
  duplicate: 'equal to a page of the domain',
  templateDelta: 'delta against the template',
  templateRun: 'delta against a run of its pages',
  siblingDelta: 'delta against the domain',
  pair: 'delta against two pages',
  sparse: 'a few words of a base changed',
  dictionary: 'zstd with a dictionary',
  clustered: 'zstd together with others',
  zstd: 'zstd',
  raw: 'raw',
  staged: 'not refined',
};

const mib = (bytes: number): string => `${(bytes / MIB).toFixed(1)} MiB`;
const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;
const times = (ratio: number): string => `${ratio.toFixed(2)}x`;
const us = (value: number): string => `${value.toFixed(1)} µs`;
const row = (label: string, ...cells: string[]): string =>
  `  ${label.padEnd(LABEL)}${cells.map((cell) => cell.padStart(COLUMN)).join('')}`.trimEnd();

/** The result of a replay, for people: at most 80 columns wide. */
export function replayReport(result: ReplayResult): string {
  const { workload, sandboxes, seed, turn, encoding } = result;
  const switches = Object.entries(encoding).map(([name, value]) => `${name} ${value}`);
  return [
    '',
    `${workload}: ${sandboxes} sandboxes captured in turn ${turn}, seed ${seed}`,
    switches.join(', '),
    ...pages(result),
    ...memory(result),
    ...costs(result),
    ...baselines(result),
    ...(result.disturbances.length > 0 ? [''] : []),
    ...result.disturbances.map((text) => `disturbance ${text}`),
    '',
    `${result.pages} pages read back identical`,
  ].join('\n');
}

const used = ([, use]: [string, Use]): boolean => use.pages > 0;

function useRow(label: string, use: Use, result: ReplayResult): string {
  const { pages, memory } = result;
  const part = percent(use.blockBytes / Math.max(1, memory.blockBytes));
  return row(label, String(use.pages), percent(use.pages / pages), mib(use.blockBytes), part);
}

function pages(result: ReplayResult): string[] {
  const encodings = ENCODINGS.map((name): [string, Use] => [LABELS[name], result.encodings[name]]);
  const mappings = Object.entries(result.mappings).sort(([, a], [, b]) => b.blockBytes - a.blockBytes);
  const head = (label: string): string => row(label, 'pages', '', 'stored', '');
  const rows = (entries: [string, Use][]): string[] =>
    entries.filter(used).map(([name, use]) => useRow(name, use, result));
  return ['', head('By encoding'), ...rows(encodings), '', head('By mapping'), ...rows(mappings)];
}

function memory({
  memory: m,
  dumpBytes,
  ratio,
  fragmentation,
  metadataBytesPerPage,
}: ReplayResult): string[] {
  return [
    '',
    row('Memory', 'bytes'),
    row('pages captured', mib(dumpBytes)),
    row('encoded bytes', mib(m.payloadBytes)),
    row('lost by rounding up to blocks', mib(m.blockBytes - m.payloadBytes), percent(fragmentation.rounding)),
    row('lost in segments not full', mib(m.arenaBytes - m.blockBytes), percent(fragmentation.segments)),
    row('dictionaries', mib(m.dictionaryBytes)),
    row('tables', mib(m.tableBytes)),
    row('indexes', mib(m.indexBytes)),
    row('results under way, counters', mib(m.bufferBytes)),
    row('tables and indexes, a page', `${metadataBytesPerPage.toFixed(0)} B`),
    row('store together', mib(m.poolBytes)),
    row('template pages in memory / used', mib(m.baseResidentBytes), mib(m.baseUsedBytes)),
    '',
    row('Times less memory'),
    row('template not counted', times(ratio.templateFree)),
    row('template pages in memory charged', times(ratio.templateCharged)),
    row('template pages used charged', times(ratio.templateUsed)),
    row('blocks alone, no tables', times(ratio.blocks)),
  ];
}

const timesRow = (label: string, { mean, p50, p99 }: Times): string => row(label, us(mean), us(p50), us(p99));

function costs({ refine, decodeUs }: ReplayResult): string[] {
  const decode = Object.entries(decodeUs.byEncoding).map(([name, time]) =>
    timesRow(`  ${LABELS[name as Encoding]}`, time),
  );
  return [
    '',
    row('CPU time, one thread'),
    row('refine a page', us(refine.usPerPage), `${refine.mbPerSecond.toFixed(0)} MB/s`),
    row('put its result in place', us(refine.commitUsPerPage)),
    ...(refine.clusterUsPerPage > 0
      ? [row('put a page together with others', us(refine.clusterUsPerPage))]
      : []),
    row('', 'mean', 'p50', 'p99'),
    timesRow('read a page back', decodeUs.all),
    ...decode,
    timesRow('the same in their order', decodeUs.inOrder),
  ];
}

function baselines({ baselines: found }: ReplayResult): string[] {
  const rows = found.map(({ name, bytes, ratio, usPerPage }) =>
    row(name, mib(bytes), times(ratio), usPerPage === null ? '' : us(usPerPage)),
  );
  return ['', row('The same pages otherwise, no tables', 'stored', 'ratio', 'a page'), ...rows];
}
