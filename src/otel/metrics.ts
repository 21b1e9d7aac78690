import type { BatchObservableResult, Histogram, Counter, Meter, Observable } from '@opentelemetry/api';
import { ATTRIBUTES, METRICS, type MetricName } from './names.js';

type Named<K extends MetricName['kind']> = {
  [N in keyof typeof METRICS]: (typeof METRICS)[N]['kind'] extends K ? N : never;
}[keyof typeof METRICS];

/** The aim is 2 ms; the usual boundaries of OpenTelemetry begin at 5. */
const STOP_BUCKETS_MS = [0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 250, 1000];

export interface TemplateReading {
  id: string;
  /** Uncompressed over stored bytes. */
  ratio: number | null;
  /** Used pages over pages put back, and over all that were out and used. */
  accuracy: number | null;
  coverage: number | null;
  pages: Readonly<Record<string, number>>;
}

/** Values read at each export: gauges, and totals that somebody else counts. Bytes, pages, events. */
export interface Reading {
  sandboxes: number;
  owned: number;
  swapped: number;
  stored: number;
  pool: number;
  base: number;
  foreign: number;
  /** Pages by encoding. */
  pages: Readonly<Record<string, number>>;
  /** Of each template: figures of late (null: not known), and pages refined by encoding. */
  templates: readonly TemplateReading[];
  demandFaults: number;
  prefetched: number;
  wasted: number;
  probeEvents: number;
  probeDrops: number;
  refused: number;
  freed: number;
  corrupt: number;
  takeovers: number;
  droppedSpans: number;
}

/** What is recorded when it happens. */
export interface Metrics {
  /** A window of `durationMs` has ended. */
  windowEnded(reason: string, durationMs: number): void;
  /** Nothing worked for a window any more so long after its end. */
  windowStopped(reason: string, stopMs: number): void;
  /** A wait was left alone. */
  windowSkipped(reason: string): void;
  /** Pages of a template began to compress worse than usual. */
  drifted(template: string, cause: string): void;
  /** Pages that stayed although the window meant to page them out. */
  pageoutIncomplete(reason: string, pages: number): void;
}

/**
 * Defines every instrument of {@link METRICS} on `meter`. `read` is called once an export; one that fails leaves the
 * values of that export out.
 */
export function createMetrics(meter: Meter, read: () => Reading | Promise<Reading>): Metrics {
  const windows: Counter = meter.createCounter(METRICS.windows.name, METRICS.windows);
  const duration: Histogram = meter.createHistogram(METRICS.windowDuration.name, METRICS.windowDuration);
  const stop: Histogram = meter.createHistogram(METRICS.windowStop.name, {
    ...METRICS.windowStop,
    advice: { explicitBucketBoundaries: STOP_BUCKETS_MS },
  });
  const skipped: Counter = meter.createCounter(METRICS.windowsSkipped.name, METRICS.windowsSkipped);
  const incomplete: Counter = meter.createCounter(METRICS.pageoutIncomplete.name, METRICS.pageoutIncomplete);

  const drifts: Counter = meter.createCounter(METRICS.templateDrifts.name, METRICS.templateDrifts);

  const observed = new Map<Exclude<keyof Reading, 'pages' | 'templates'>, Observable>();
  const gauge = (key: Named<'gauge'>) => meter.createObservableGauge(METRICS[key].name, METRICS[key]);
  const total = (key: Named<'counter'>) => meter.createObservableCounter(METRICS[key].name, METRICS[key]);
  for (const key of ['sandboxes', 'owned', 'swapped', 'stored', 'pool', 'base', 'foreign'] as const) {
    observed.set(key, gauge(key));
  }
  for (const key of [
    'demandFaults',
    'prefetched',
    'wasted',
    'probeEvents',
    'probeDrops',
    'refused',
    'freed',
    'corrupt',
    'takeovers',
    'droppedSpans',
  ] as const) {
    observed.set(key, total(key));
  }
  const pages = gauge('pages');
  const rates = {
    ratio: gauge('templateRatio'),
    accuracy: gauge('prefetchAccuracy'),
    coverage: gauge('prefetchCoverage'),
  };
  const refined = total('templatePages');

  const observeTemplate = (result: BatchObservableResult, template: TemplateReading): void => {
    const of = { [ATTRIBUTES.template]: template.id };
    for (const key of ['ratio', 'accuracy', 'coverage'] as const) {
      const value = template[key];
      if (value !== null) result.observe(rates[key], value, of);
    }
    for (const [encoding, count] of Object.entries(template.pages)) {
      result.observe(refined, count, { ...of, [ATTRIBUTES.encoding]: encoding });
    }
  };
  meter.addBatchObservableCallback(
    async (result) => {
      const reading = await read();
      for (const [key, instrument] of observed) result.observe(instrument, reading[key]);
      for (const [encoding, count] of Object.entries(reading.pages)) {
        result.observe(pages, count, { [ATTRIBUTES.encoding]: encoding });
      }
      for (const template of reading.templates) observeTemplate(result, template);
    },
    [...observed.values(), ...Object.values(rates), pages, refined],
  );
  return {
    windowEnded: (reason, durationMs) => {
      windows.add(1, { [ATTRIBUTES.endReason]: reason });
      duration.record(durationMs, { [ATTRIBUTES.endReason]: reason });
    },
    windowStopped: (reason, stopMs) => stop.record(stopMs, { [ATTRIBUTES.endReason]: reason }),
    windowSkipped: (reason) => skipped.add(1, { [ATTRIBUTES.reason]: reason }),
    drifted: (template, cause) =>
      drifts.add(1, { [ATTRIBUTES.template]: template, [ATTRIBUTES.reason]: cause }),
    pageoutIncomplete: (reason, count) => incomplete.add(count, { [ATTRIBUTES.reason]: reason }),
  };
}
