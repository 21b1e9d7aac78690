import type { DetectResult } from './result.js';
import type { Times } from './score.js';

const LABEL = 30;
const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;
const ms = ({ p50, p95, p99, max }: Times): string =>
  `p50 ${p50.toFixed(2)}, p95 ${p95.toFixed(2)}, p99 ${p99.toFixed(2)}, most ${max.toFixed(2)}`;

/** The figures for people, at most 80 columns wide. */
export function detectTable(result: DetectResult): string {
  const { precision, recall, firstTokenMs, toolStartMs, overhead, host, watchCpuShare } = result;
  const { untracked, tracked, untrackedFaults, trackedFaults, faultNs } = overhead.rounds;
  const range = (of: { min: number; max: number }): string => `(${percent(of.min)} to ${percent(of.max)})`;
  const counted = ({ count, missed }: Times, of: string): string => `${count} ${of}, ${missed} missed`;
  const rows: [label: string, text: string][] = [
    ['precision of llm_wait', percent(precision)],
    ['recall of llm_wait', percent(recall)],
    ['first token noticed, ms', ms(firstTokenMs)],
    ['', counted(firstTokenMs, 'tokens')],
    ['tool start noticed, ms', ms(toolStartMs)],
    ['', counted(toolStartMs, 'tools')],
    ['overhead, not tracked', `${percent(untracked.median)} ${range(untracked)}`],
    ['overhead, tracked', `${percent(tracked.median)} ${range(tracked)}`],
    ['with the fault probes too', `${percent(untrackedFaults.median)} ${range(untrackedFaults)}`],
    ['with them, tracked', `${percent(trackedFaults.median)} ${range(trackedFaults)}`],
    ['fault without probes', `${faultNs.median.toFixed(0)} ns of CPU time`],
    ['events', `${result.events}, ${result.dropped} lost`],
    ['detector and model server', `${percent(watchCpuShare)} of a core`],
  ];
  return [
    '',
    `detect: ${result.sandboxes} sandboxes, ${result.turns} turns, seed ${result.seed}, no hooks`,
    `${host.cpus} cores, Linux ${host.kernel}`,
    '',
    ...rows.map(([label, text]) => `${label.padEnd(LABEL)}${text}`),
    '',
  ].join('\n');
}
