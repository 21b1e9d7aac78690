import type { BenchResult, SystemResult } from './result.js';
import type { Spread } from './stats.js';

const MIB = 2 ** 20;
const LABEL = 39;
const COLUMN = 19;

const mib = ({ median }: Spread): string => `${(median / MIB).toFixed(1)} MiB`;
const seconds = ({ median }: Spread): string => `${(median / 1000).toFixed(1)} s`;
const milliseconds = (ms: number): string => `${ms.toFixed(0)} ms`;

/** `2.31x`, with the range behind it when there was more than one run. */
function times({ median, min, max }: Spread, runs: number): string {
  const range = runs > 1 ? ` (${min.toFixed(2)}–${max.toFixed(2)})` : '';
  return `${median.toFixed(2)}x${range}`;
}

const row = (label: string, ...cells: string[]): string =>
  `  ${label.padEnd(LABEL)}${cells.map((cell) => cell.padStart(COLUMN)).join('')}`.trimEnd();

/** The report of a demo, for people: at most 80 columns wide. */
export function report(result: BenchResult): string {
  const none = result.systems.find(({ system }) => system === 'none');
  const zip = result.systems.find(({ system }) => system.startsWith('agentzip'));
  const { sandboxes, turns, seed, host } = result;
  const head = [
    '',
    `${result.workload}: ${sandboxes} sandboxes, ${turns} turns, seed ${seed}, ${(zip ?? none)?.runs ?? 0} run(s) each`,
    `${host.cpus} cores, ${(host.memoryBytes / 2 ** 30).toFixed(0)} GiB, Linux ${host.kernel}, Node ${host.node}`,
  ];
  if (none === undefined || zip === undefined) {
    return [...head, ...result.systems.flatMap((system) => alone(system))].join('\n');
  }
  return [...head, ...memory(none, zip), ...cost(none, zip), ...pages(zip), ''].join('\n');
}

function alone(system: SystemResult): string[] {
  return [
    row('system', system.system),
    row('owned, time average', mib(system.memory.ownedMean)),
    row('owned, peak', mib(system.memory.peak)),
    row('wall time', seconds(system.wallMs)),
    row('tool call p50', milliseconds(system.toolMs.p50)),
  ];
}

function memory(none: SystemResult, zip: SystemResult): string[] {
  const { runs } = zip;
  const kept = ({ memory: m }: SystemResult): Spread => {
    const median = m.ownedMean.median + m.poolMean.median;
    return { median, min: median, max: median };
  };
  return [
    '',
    row('Memory, all sandboxes together', 'without', 'with AgentZip'),
    row('owned, time average', mib(none.memory.ownedMean), mib(zip.memory.ownedMean)),
    row('compressed pool, time average', '-', mib(zip.memory.poolMean)),
    row('owned + pool, time average', mib(kept(none)), mib(kept(zip))),
    row('owned + pool, peak', mib(none.memory.peak), mib(zip.memory.peak)),
    row('one sandbox when its wait ends', mib(none.memory.waitEndMean), mib(zip.memory.waitEndMean)),
    row('template pages as bases', '-', mib(zip.memory.baseMean)),
    row("AgentZip's own processes", '-', mib(zip.memory.overheadMean)),
    row('swap cache, dropped on demand', '-', mib(zip.memory.swapCacheMean)),
    '',
    row('Times less memory', '', ''),
    row('when waits end, template not counted', times(zip.reductionAtWaitEnd, runs)),
    row('time average, template not counted', times(zip.reductionTemplateFree, runs)),
    row('time average, template charged once', times(zip.reductionTemplateCharged, runs)),
    row('time average, all costs included', times(zip.reductionAllIn, runs)),
    row('peak over peak', times(zip.peakReduction, runs)),
  ];
}

function cost(none: SystemResult, zip: SystemResult): string[] {
  const tool = (q: 'p50' | 'p95' | 'p99'): string =>
    row(
      `tool call, ${q}`,
      milliseconds(none.toolMs[q]),
      `${milliseconds(zip.toolMs[q])} ${zip.toolSlowdown[q].toFixed(2)}x`,
    );
  return [
    '',
    row('Time', 'without', 'with AgentZip'),
    row('wall', seconds(none.wallMs), `${seconds(zip.wallMs)} ${zip.slowdownWall.median.toFixed(2)}x`),
    tool('p50'),
    tool('p95'),
    tool('p99'),
  ];
}

function pages(zip: SystemResult): string[] {
  const encodings = Object.entries(zip.encodings ?? {}).filter(([, count]) => count > 0);
  const total = encodings.reduce((sum, [, count]) => sum + count, 0);
  return [
    '',
    row('Pages by encoding, at the fullest'),
    ...encodings.map(([name, count]) => row(name, String(count), `${((100 * count) / total).toFixed(1)} %`)),
    '',
    row('Pages put back'),
    row('faults of tools on pages that were out', String(zip.faults.demand)),
    row('prefetched before the tool asked', String(zip.faults.prefetched)),
    row('of those not used', String(zip.faults.wasted)),
  ];
}
