import { setTimeout as sleep } from 'node:timers/promises';
import type { TemplateSpec, TemplateStatus } from '../controller/api.js';
import { AgentZipClient } from './client.js';
import { ProgressMeter, type Progress } from './progress.js';
import { checkedRuntimeDir, controlSocket } from './runtime-files.js';
import { bytes, percent, times } from './watch/format.js';

const POLL_MS = 200;
const PAGE = 4096;

async function withClient<T>(runtimeDir: string, work: (client: AgentZipClient) => Promise<T>): Promise<T> {
  const client = new AgentZipClient(controlSocket(checkedRuntimeDir(runtimeDir)));
  try {
    return await work(client);
  } finally {
    client.close();
  }
}

/** Errors of all three: those of the client, and of the route. */
export const listTemplates = (runtimeDir: string): Promise<TemplateStatus[]> =>
  withClient(runtimeDir, async (client) => (await client.status()).templates);

export const dropTemplate = (runtimeDir: string, id: string): Promise<void> =>
  withClient(runtimeDir, (client) => client.deleteTemplate(id));

/** Registers a template; `tell` hears how many pages of its process have been read. */
export const captureTemplate = (
  runtimeDir: string,
  id: string,
  spec: TemplateSpec,
  tell: (progress: Progress) => void,
): Promise<TemplateStatus> =>
  withClient(runtimeDir, async (client) => {
    const end = new AbortController();
    const following = follow(client, id, tell, end.signal);
    try {
      return await client.putTemplate(id, spec);
    } finally {
      end.abort();
      await following;
    }
  });

async function follow(
  client: AgentZipClient,
  id: string,
  tell: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<void> {
  const meter = new ProgressMeter();
  while (!signal.aborted) {
    await sleep(POLL_MS, undefined, { signal }).catch(() => {});
    // That it can not be told how far it is, is no reason to give it up.
    const status = await client.status().catch(() => null);
    const capture = status?.captures.find((candidate) => candidate.id === id);
    if (capture !== undefined && !signal.aborted)
      tell(meter.note(performance.now(), capture.pages, capture.totalPages));
  }
}

/** Templates for people. */
export function templateTable(templates: readonly TemplateStatus[]): string {
  if (templates.length === 0) return 'no template is registered';
  const head = [
    'TEMPLATE',
    'TENANT',
    'PAGES',
    'DISTINCT',
    'SIZE',
    'RESIDENT',
    'RATIO',
    'ACCURACY',
    'COVERAGE',
  ];
  const rows = templates.map(({ id, tenant, public: open, pages, distinctPages, ...rest }) => [
    ...[id, open ? 'public' : (tenant ?? '-'), String(pages), String(distinctPages)],
    ...[bytes(distinctPages * PAGE), bytes(rest.residentBytes), times(rest.compression.ratio)],
    ...[percent(rest.prefetch.accuracy), percent(rest.prefetch.coverage)],
  ]);
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i].length)));
  const line = (cells: readonly string[]): string =>
    cells.map((cell, i) => (i < 2 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  ');
  return [head, ...rows].map((cells) => line(cells).trimEnd()).join('\n');
}
