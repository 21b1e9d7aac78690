import type { Status, TemplateStatus } from '../controller/api.js';
import { ATTRIBUTES, METRICS, type MetricName } from '../otel/names.js';

/** Text format 0.0.4, which every Prometheus reads. */
export const METRICS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const UNIT_SUFFIX: Partial<Record<MetricName['unit'], string>> = { By: 'bytes', ms: 'milliseconds' };

/**
 * The name of the table in Prometheus' terms, as OpenTelemetry translates it (and a collector does, so that dashboards
 * read both): unit, then `ratio` for a gauge without one, then `total` for a counter; units in braces are left out.
 */
export function prometheusName({ name, unit, kind }: MetricName): string {
  const suffixes = [
    UNIT_SUFFIX[unit],
    unit === '1' && kind === 'gauge' ? 'ratio' : undefined,
    kind === 'counter' ? 'total' : undefined,
  ];
  return suffixes
    .filter((suffix) => suffix !== undefined)
    .reduce((words, suffix) => [...words.filter((word) => word !== suffix), suffix], name.split('.'))
    .join('_');
}

type Labels = Record<string, string>;

/** An attribute's name as a label. */
const labelName = (attribute: string): string => attribute.replace(/[^A-Za-z0-9_]/g, '_');
const LABELS = {
  sandbox: labelName(ATTRIBUTES.sandbox),
  template: labelName(ATTRIBUTES.template),
  encoding: labelName(ATTRIBUTES.encoding),
  tenant: 'agentzip_tenant_id',
};

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escapeLabel = (value: string): string => escapeHelp(value).replaceAll('"', '\\"');

function sample(name: string, labels: Labels, value: number): string {
  const list = Object.entries(labels).map(([key, text]) => `${key}="${escapeLabel(text)}"`);
  return `${name}${list.length > 0 ? `{${list.join(',')}}` : ''} ${value}`;
}

function family(metric: MetricName, samples: [labels: Labels, value: number][]): string[] {
  const name = prometheusName(metric);
  return [
    `# HELP ${name} ${escapeHelp(metric.description)}`,
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
    return found === null ? [] : [[{ [LABELS.template]: template.id }, found]];
  });
}

/** What is told of each sandbox. */
function ofSandboxes(sandboxes: Status['sandboxes']): string[] {
  const values: [MetricName, (sandbox: Status['sandboxes'][number]) => number][] = [
    [METRICS.owned, (sandbox) => sandbox.ownedBytes],
    [METRICS.swapped, (sandbox) => sandbox.swappedBytes],
    [METRICS.stored, (sandbox) => sandbox.storedBytes],
    [METRICS.windows, (sandbox) => sandbox.windows],
    [METRICS.windowsSkipped, (sandbox) => sandbox.skippedWindows],
    [METRICS.demandFaults, (sandbox) => sandbox.demandFaults],
    [METRICS.prefetched, (sandbox) => sandbox.prefetchedPages],
    [METRICS.wasted, (sandbox) => sandbox.wastedPages],
  ];
  const labels = ({ id, template, tenant }: Status['sandboxes'][number]): Labels => ({
    [LABELS.sandbox]: id,
    // An empty label is none.
    ...(template !== null && { [LABELS.template]: template }),
    [LABELS.tenant]: tenant,
  });
  return values.flatMap(([metric, value]) =>
    family(
      metric,
      sandboxes.map((sandbox) => [labels(sandbox), value(sandbox)]),
    ),
  );
}

/** What is told of each template, as far as it is known. */
function ofTemplates(templates: Status['templates']): string[] {
  const values: [MetricName, (template: TemplateStatus) => number | null][] = [
    [METRICS.templateRatio, ({ compression }) => compression.recentRatio],
    [METRICS.prefetchAccuracy, ({ prefetch }) => prefetch.accuracy],
    [METRICS.prefetchCoverage, ({ prefetch }) => prefetch.coverage],
  ];
  const pages = templates.flatMap(({ id, compression }) =>
    Object.entries(compression.encodings ?? {}).map(([encoding, count]): [Labels, number] => [
      { [LABELS.template]: id, [LABELS.encoding]: encoding },
      count,
    ]),
  );
  return [
    ...values.flatMap(([metric, value]) => family(metric, known(templates, value))),
    ...family(METRICS.templatePages, pages),
  ];
}

/** A status as a scrape. Sandboxes are labelled; what a sandbox can not know is a plain number. */
export function prometheusText(status: Status): string {
  const { pager, probes, sandboxes, templates } = status;
  const encodings = Object.entries(pager.encodings).map(([encoding, pages]): [Labels, number] => [
    { [LABELS.encoding]: encoding },
    pages,
  ]);
  // All of the resource, as OpenTelemetry has it in Prometheus.
  const target = Object.fromEntries(
    Object.entries(status.resource).map(([name, value]) => [labelName(name), value]),
  );
  const lines = [
    '# HELP target_info Target metadata',
    '# TYPE target_info gauge',
    sample('target_info', target, 1),
    '# HELP agentzip_info Version and state of the service.',
    '# TYPE agentzip_info gauge',
    sample('agentzip_info', { version: status.version, enabled: String(status.enabled) }, 1),
    ...family(METRICS.sandboxes, [[{}, sandboxes.length]]),
    ...ofSandboxes(sandboxes),
    ...family(METRICS.pool, [[{}, pager.poolBytes + pager.warmBytes]]),
    ...family(METRICS.base, [[{}, pager.baseBytes]]),
    ...family(METRICS.pages, encodings),
    ...ofTemplates(templates),
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
