import type { HostStatus, SandboxStatus, Status } from '../controller/api.js';
import { AgentZipClient } from './client.js';
import { checkedRuntimeDir, controlSocket } from './runtime-files.js';
import { mib } from './watch/format.js';

/** A digest as Docker shortens it: with all of it no line fits a terminal. */
const shortened = (template: string): string => template.replace(/^(sha256-[0-9a-f]{12})[0-9a-f]{52}/, '$1');

const COLUMNS: [title: string, value: (sandbox: SandboxStatus) => string][] = [
  ['SANDBOX', ({ id }) => id],
  ['TEMPLATE', ({ template }) => shortened(template ?? '-')],
  ['HOST', ({ host }) => host ?? 'api'],
  ['MODE', ({ mode }) => mode],
  ['PHASE', ({ phase }) => phase],
  ['OWNED MiB', ({ ownedBytes }) => mib(ownedBytes)],
  ['OUT MiB', ({ swappedBytes }) => mib(swappedBytes)],
  ['STORED MiB', ({ storedBytes }) => mib(storedBytes)],
  ['RATIO', ({ ratio }) => (ratio === null ? '-' : `${ratio.toFixed(1)}x`)],
  ['WINDOWS', ({ windows }) => String(windows)],
  ['SKIPPED', ({ skippedWindows }) => String(skippedWindows)],
  ['FAULTS', ({ demandFaults }) => String(demandFaults)],
];

/** Columns of names, to the left; those of numbers follow. */
const NAMES = 5;

function sandboxTable(sandboxes: readonly SandboxStatus[]): string[] {
  const rows = [
    COLUMNS.map(([title]) => title),
    ...sandboxes.map((s) => COLUMNS.map(([, value]) => value(s))),
  ];
  const widths = COLUMNS.map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  // Names to the left, numbers to the right.
  const cell = (text: string, i: number): string =>
    i < NAMES ? text.padEnd(widths[i]) : text.padStart(widths[i]);
  return rows.map((row) => row.map(cell).join('  ').trimEnd());
}

const hostLines = ({ name, sandboxes, claimed, following, warnings }: HostStatus): string[] => [
  `host ${name}: ${sandboxes} sandboxes${claimed > 0 ? `, ${claimed} registered otherwise` : ''}` +
    (following ? '' : '; looked at at intervals alone'),
  ...warnings.map((warning) => `warning: ${warning}`),
];

/** Why sandboxes are left alone, each reason once. */
function observed(sandboxes: readonly SandboxStatus[]): string[] {
  const byReason = new Map<string, string[]>();
  for (const { id, mode, why, hazards } of sandboxes) {
    if (mode !== 'observe') continue;
    const reason = `${why ?? 'its host says so'}${hazards.length > 0 ? ` (${hazards.join(', ')})` : ''}`;
    byReason.set(reason, [...(byReason.get(reason) ?? []), id]);
  }
  const named = (ids: string[]): string => (ids.length === 1 ? ids[0] : `${ids.length} sandboxes`);
  return [...byReason].map(([reason, ids]) => `observed only: ${named(ids)}: ${reason}`);
}

/** Asks the service of a runtime directory. Errors: AZ_NOT_RUNNING and others of the client. */
export async function readStatus(runtimeDir: string): Promise<Status> {
  const client = new AgentZipClient(controlSocket(checkedRuntimeDir(runtimeDir)));
  try {
    return await client.status();
  } finally {
    client.close();
  }
}

const tierLine = ({ tier, warmBytes, warmPages }: Status['pager']): string =>
  tier === 'direct' ? 'tier direct' : `tier ${tier}: it holds ${warmPages} pages in ${mib(warmBytes)} MiB`;

/** A status for people. */
export function statusTable(status: Status): string {
  const { pager, probes, memory, hosts, sandboxes, templates } = status;
  const encodings = Object.entries(pager.encodings).map(([name, pages]) => `${name} ${pages}`);
  const lines = [
    `agentzip ${status.version}, ${status.enabled ? 'enabled' : 'disabled'}, pid ${status.pid}, up ${Math.round(status.uptimeMs / 1000)} s`,
    `pager pid ${pager.pid}, ${pager.device}: pool ${mib(pager.poolBytes)} MiB, base ${mib(pager.baseBytes)} MiB`,
    `front end ${pager.frontEnd}: ${pager.frontEndReason}`,
    tierLine(pager),
    `standby ${pager.standbyPid === null ? 'none' : `pid ${pager.standbyPid}`}; takeovers ${pager.takeovers}`,
    `pages: ${encodings.join(', ')}; foreign ${pager.foreignSlots}`,
    `host: ${mib(memory.availableBytes)} of ${mib(memory.totalBytes)} MiB available${memory.short ? ', short of memory' : ''}`,
    `probes: ${probes.attached.join(', ') || 'none'}; events ${probes.events}, dropped ${probes.dropped}; demand faults by ${probes.faults}`,
    ...status.alerts.map(({ code, message, remedy }) => `ALERT ${code}: ${message}; remedy: ${remedy}`),
    ...[...probes.warnings, ...memory.warnings, ...status.templateWarnings].map(
      (warning) => `warning: ${warning}`,
    ),
    ...hosts.flatMap(hostLines),
    ...templates.map(
      ({ id, pages, distinctPages, residentBytes, compression }) =>
        `template ${id}: ${pages} pages, ${distinctPages} distinct, ${mib(residentBytes)} MiB resident` +
        (compression.ratio === null
          ? ''
          : `; ${compression.pages} pages stored, ${compression.ratio.toFixed(1)}x`),
    ),
  ];
  return [...lines, '', ...sandboxTable(sandboxes), ...observed(sandboxes), ''].join('\n');
}
