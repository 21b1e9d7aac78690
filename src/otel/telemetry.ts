import type { Meter, Tracer } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import type { Resource } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base';
import { FileSpanExporter } from './file-exporter.js';
import { resourceOf, type Emitter } from './resource.js';
import type { OtelSettings } from './settings.js';
import { SpanQueue, within } from './span-queue.js';

/** A collector that has not answered a request by then is retried later or given up. */
const REQUEST_TIMEOUT_MS = 3_000;
/** Shutdown must not wait for a dead collector; spans and metrics flush side by side. */
const SHUTDOWN_MS = 4_000;

export interface Telemetry {
  /** Those of now; another one after {@link Telemetry.renew}. */
  readonly tracer: Tracer;
  readonly meter: Meter;
  /** What every span and metric says of its sender. */
  readonly resource: Readonly<Record<string, string>>;
  /** Spans lost so far because a collector or file did not take them. */
  droppedSpans(): number;
  /** Other settings from now on; what has been recorded goes where it was to go. Throws AZ_OTEL_FILE, and changes nothing. */
  renew(settings: OtelSettings): void;
  /** Called when the meter has become another one: instruments have to be made anew. */
  onRenew: () => void;
  /** Exports what is left. Never rejects, and takes about 4 s at most. */
  shutdown(): Promise<void>;
}

/** Tracer and meter of one set of settings. */
class Providers {
  readonly tracer: Tracer;
  readonly meter: Meter;
  private readonly queues: SpanQueue[];
  private readonly tracers: BasicTracerProvider;
  private readonly meters: MeterProvider;

  constructor(settings: OtelSettings, emitter: Emitter, resource: Resource, exporter?: SpanExporter) {
    const exporters = [...spanExporters(settings), ...(exporter === undefined ? [] : [exporter])];
    this.queues = exporters.map(
      (each) => new SpanQueue({ exporter: each, maxSpans: settings.maxQueueSpans, shutdownMs: SHUTDOWN_MS }),
    );
    this.tracers = new BasicTracerProvider({
      resource,
      sampler: this.queues.length > 0 ? new AlwaysOnSampler() : new AlwaysOffSampler(),
      spanProcessors: this.queues,
    });
    this.meters = new MeterProvider({ resource, readers: metricReaders(settings) });
    this.tracer = this.tracers.getTracer('agentzip', emitter.version);
    this.meter = this.meters.getMeter('agentzip', emitter.version);
  }

  dropped(): number {
    return this.queues.reduce((sum, queue) => sum + queue.dropped, 0);
  }

  async shutdown(): Promise<void> {
    await Promise.all([
      within(SHUTDOWN_MS + 1_000, this.tracers.shutdown()),
      within(SHUTDOWN_MS, this.meters.shutdown({ timeoutMillis: SHUTDOWN_MS })),
    ]);
  }
}

/**
 * Tracer and meter for this process; nothing is registered globally, so a host that loads AgentZip as a library keeps
 * its own OpenTelemetry. `exporter` gets the spans too; with neither it nor endpoint nor file they are not even recorded.
 * Errors: AZ_OTEL_FILE.
 */
export function createTelemetry(
  settings: OtelSettings,
  emitter: Emitter,
  exporter?: SpanExporter,
): Telemetry {
  // The host's own exporter outlives a change of settings.
  const lasting = exporter && { export: exporter.export.bind(exporter), shutdown: async () => {} };
  const resource = resourceOf(emitter);
  let now = new Providers(settings, emitter, resource, lasting);
  const past: Providers[] = [];
  const ending: Promise<void>[] = [];
  return {
    get tracer() {
      return now.tracer;
    },
    get meter() {
      return now.meter;
    },
    resource: Object.fromEntries(
      Object.entries(resource.attributes).map(([name, value]) => [name, String(value)]),
    ),
    onRenew: () => {},
    droppedSpans: () => [...past, now].reduce((sum, each) => sum + each.dropped(), 0),
    renew(next) {
      const providers = new Providers(next, emitter, resource, lasting);
      past.push(now);
      ending.push(now.shutdown());
      now = providers;
      this.onRenew();
    },
    shutdown: async () => {
      await Promise.all([...ending, now.shutdown()]);
      if (exporter !== undefined) await within(SHUTDOWN_MS, exporter.shutdown());
    },
  };
}

const collectorUrl = (endpoint: string, path: string): string => endpoint.replace(/\/*$/, '') + path;

function spanExporters({ endpoint, headers, file }: OtelSettings) {
  const exporters = [];
  if (endpoint !== null) {
    const url = collectorUrl(endpoint, '/v1/traces');
    exporters.push(new OTLPTraceExporter({ url, headers, timeoutMillis: REQUEST_TIMEOUT_MS }));
  }
  if (file !== null) exporters.push(new FileSpanExporter(file));
  return exporters;
}

function metricReaders({ endpoint, headers, metricsIntervalMs }: OtelSettings) {
  if (endpoint === null) return [];
  const url = collectorUrl(endpoint, '/v1/metrics');
  const exporter = new OTLPMetricExporter({ url, headers, timeoutMillis: REQUEST_TIMEOUT_MS });
  const exportIntervalMillis = metricsIntervalMs;
  const exportTimeoutMillis = Math.min(REQUEST_TIMEOUT_MS, metricsIntervalMs);
  return [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis, exportTimeoutMillis })];
}
