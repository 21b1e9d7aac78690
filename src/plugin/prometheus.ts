import type { Status, TemplateStatus } from '../controller/api.js';
import { METRICS, type MetricName } from '../otel/names.js';

/** Text format 0.0.4, which every Prometheus reads. */
export const METRICS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const UNIT_SUFFIX: Partial<Record<MetricName['unit'], string>> = { By: '_bytes', ms: '_milliseconds' };

/** The name of the table in Prometheus' terms: `agentzip.memory.owned` in By is `agentzip_memory_owned_bytes`. */
export const prometheusName = ({ name, unit, kind }: MetricName): string =>
  name.replaceAll('.', '_') + (UNIT_SUFFIX[unit] ?? '') + (kind === 'counter' ? '_total' : '');

type Labels = Record<string, string>;

const escapeLabel = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

function sample(name: string, labels: Labels, value: number): string {
  const list = Object.entries(labels).map(([key, text]) => `${key}="${escapeLabel(text)}"`);
  return `${name}${list.length > 0 ? `{${list.join(',')}}` : ''} ${value}`;
}

function family(metric: MetricName, samples: [labels: Labels, value: number][]): string[] {
  const name = prometheusName(metric);
  return [
    `# HELP ${name} ${metric.description}`,
    `# TYPE ${name} ${metric.kind}`,
    ...samples.map(([labels, value]) => sample(name, labels, value)),
  ];
}

/** What is known of each template; the others are left out. */
function known(
  templates: readonly TemplateStatus[],
  value: (template: TemplateStatus) => number | null,
): [Labels, number][] {
  return templates.flatMap((template): [Labels, number][] => {
    const found = value(template);
    return found === null ? [] : [[{ template: template.id }, found]];
  });
}

/** A status as a scrape. Sandboxes are labelled; what a sandbox can not know is a plain number. */
export function prometheusText(status: Status): string {
  const { pager, probes, sandboxes, templates } = status;
  const each = (value: (sandbox: Status['sandboxes'][number]) => number): [Labels, number][] =>
    sandboxes.map((sandbox) => [
      { sandbox: sandbox.id, template: sandbox.template ?? '', tenant: sandbox.tenant },
      value(sandbox),
    ]);
  const encodings = Object.entries(pager.encodings).map(([encoding, pages]): [Labels, number] => [
    { encoding },
    pages,
  ]);
  const lines = [
    '# HELP agentzip_info Version and state of the service.',
    '# TYPE agentzip_info gauge',
    sample('agentzip_info', { version: status.version, enabled: String(status.enabled) }, 1),
    ...family(METRICS.sandboxes, [[{}, sandboxes.length]]),
    ...family(
      METRICS.owned,
      each((sandbox) => sandbox.ownedBytes),
    ),
    ...family(
      METRICS.swapped,
      each((sandbox) => sandbox.swappedBytes),
    ),
    ...family(
      METRICS.stored,
      each((sandbox) => sandbox.storedBytes),
    ),
    ...family(
      METRICS.windows,
      each((sandbox) => sandbox.windows),
    ),
    ...family(
      METRICS.demandFaults,
      each((sandbox) => sandbox.demandFaults),
    ),
    ...family(
      METRICS.prefetched,
      each((sandbox) => sandbox.prefetchedPages),
    ),
    ...family(
      METRICS.wasted,
      each((sandbox) => sandbox.wastedPages),
    ),
    ...family(METRICS.pool, [[{}, pager.poolBytes]]),
    ...family(METRICS.base, [[{}, pager.baseBytes]]),
    ...family(METRICS.pages, encodings),
    ...family(
      METRICS.templateRatio,
      known(templates, ({ compression }) => compression.recentRatio),
    ),
    ...family(
      METRICS.prefetchAccuracy,
      known(templates, ({ prefetch }) => prefetch.accuracy),
    ),
    ...family(
      METRICS.prefetchCoverage,
      known(templates, ({ prefetch }) => prefetch.coverage),
    ),
    ...family(
      METRICS.templatePages,
      templates.flatMap(({ id, compression }) =>
        Object.entries(compression.encodings ?? {}).map(([encoding, pages]): [Labels, number] => [
          { template: id, encoding },
          pages,
        ]),
      ),
    ),
    ...family(METRICS.foreign, [[{}, pager.foreignSlots]]),
    ...family(METRICS.refused, [[{}, pager.refusedWrites]]),
    ...family(METRICS.freed, [[{}, pager.freedSlots]]),
    ...family(METRICS.corrupt, [[{}, pager.corruptPages]]),
    ...family(METRICS.takeovers, [[{}, pager.takeovers]]),
    ...family(METRICS.probeEvents, [[{}, probes.events]]),
    ...family(METRICS.probeDrops, [[{}, probes.dropped]]),
  ];
  return `${lines.join('\n')}\n`;
}
