import type { BenchResult, SystemResult } from './result.js';
import type { Spread } from './stats.js';

const NAME = 24;
const COLUMN = 11;

const times = (ratio: number): string => `${ratio.toFixed(2)}x`;
const seconds = (value: number): string => `${value.toFixed(1)} s`;

type Column = [heading: string, cell: (system: SystemResult) => string];

const ratio = (heading: string, pick: (system: SystemResult) => Spread): Column => [
  heading,
  (system) => times(pick(system).median),
];

const MEMORY: readonly Column[] = [
  ratio('wait end', (s) => s.reductionAtWaitEnd),
  ratio('average', (s) => s.reductionTemplateFree),
  ratio('+ base', (s) => s.reductionTemplateCharged),
  ratio('+ all', (s) => s.reductionAllIn),
  ratio('peak', (s) => s.peakReduction),
];

const TIME: readonly Column[] = [
  ratio('wall', (s) => s.slowdownWall),
  ['tool p50', (s) => times(s.toolSlowdown.p50)],
  ['tool p95', (s) => times(s.toolSlowdown.p95)],
  [
    'CPU',
    ({ cpuSeconds: { tools, controller, pager, kernel } }) =>
      seconds(tools.median + controller.median + pager.median + kernel.median),
  ],
  ['identical', (s) => (s.resultsIdentical ? 'yes' : 'NO')],
];

/** Those that never wait: how much longer their tools take, with the range over the runs. */
function bystanderLines(systems: readonly SystemResult[]): string[] {
  const cell = ({ median, min, max }: Spread): string =>
    `${times(median)} (${min.toFixed(2)}–${max.toFixed(2)})`.padStart(2 * COLUMN - 4);
  const rows = systems.flatMap(({ system, bystanders }) =>
    bystanders === null
      ? []
      : [
          system.padEnd(NAME) +
            [bystanders.slowdown.p50, bystanders.slowdown.p95, bystanders.slowdown.p99].map(cell).join(''),
        ],
  );
  const heading = ['p50', 'p95', 'p99'].map((of) => of.padStart(2 * COLUMN - 4)).join('');
  return rows.length === 0 ? [] : ['', 'Tools of bystanders'.padEnd(NAME) + heading, ...rows];
}

/** The tables at the end of a bench: all systems, one a line, at most 80 columns wide. */
export function benchTable(result: BenchResult): string {
  const { workload, sandboxes, turns, seed, runs, host, systems } = result;
  const lines = (title: string, columns: readonly Column[]): string[] => [
    '',
    title.padEnd(NAME) + columns.map(([heading]) => heading.padStart(COLUMN)).join(''),
    ...systems.map(
      (system) =>
        system.system.padEnd(NAME) + columns.map(([, cell]) => cell(system).padStart(COLUMN)).join(''),
    ),
  ];
  const list = (title: string, texts: readonly string[]): string[] =>
    texts.length === 0 ? [] : ['', title, ...texts.map((text) => `  ${text}`)];
  return [
    '',
    `${workload}: ${sandboxes} sandboxes, ${turns} turns, seed ${seed}, ${runs} run(s) of each system`,
    `${host.cpus} cores, ${(host.memoryBytes / 2 ** 30).toFixed(0)} GiB, Linux ${host.kernel}, Node ${host.node}`,
    ...lines('Times less memory', MEMORY),
    ...lines('Times the time', TIME),
    ...bystanderLines(systems),
    ...list('Deviations', result.deviations),
    ...list('Disturbances', result.disturbances),
    ...list(
      'Notes',
      systems.flatMap((system) => system.notes.map((note) => `${system.system}: ${note}`)),
    ),
    '',
  ].join('\n');
}
