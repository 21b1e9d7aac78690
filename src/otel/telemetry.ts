import type { Meter, Tracer } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
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
  tracer: Tracer;
  meter: Meter;
  /** Spans lost so far because a collector or file did not take them. */
  droppedSpans(): number;
  /** Exports what is left. Never rejects, and takes about 4 s at most. */
  shutdown(): Promise<void>;
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
  const resource = resourceOf(emitter);
  const exporters = [...spanExporters(settings), ...(exporter === undefined ? [] : [exporter])];
  const queues = exporters.map(
    (exporter) => new SpanQueue({ exporter, maxSpans: settings.maxQueueSpans, shutdownMs: SHUTDOWN_MS }),
  );
  const tracers = new BasicTracerProvider({
    resource,
    sampler: queues.length > 0 ? new AlwaysOnSampler() : new AlwaysOffSampler(),
    spanProcessors: queues,
  });
  const meters = new MeterProvider({ resource, readers: metricReaders(settings) });
  return {
    tracer: tracers.getTracer('agentzip', emitter.version),
    meter: meters.getMeter('agentzip', emitter.version),
    droppedSpans: () => queues.reduce((sum, queue) => sum + queue.dropped, 0),
    shutdown: async () => {
      await Promise.all([
        within(SHUTDOWN_MS + 1_000, tracers.shutdown()),
        within(SHUTDOWN_MS, meters.shutdown({ timeoutMillis: SHUTDOWN_MS })),
      ]);
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
