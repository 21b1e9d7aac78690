/** Where spans and metrics go; the `otel` section of the policy. Nowhere when neither endpoint nor file is set. */
export interface OtelSettings {
  /** Base URL of an OTLP/HTTP collector; `/v1/traces` and `/v1/metrics` are appended. */
  endpoint: string | null;
  headers: Record<string, string>;
  /** File to which spans are appended, one a line. */
  file: string | null;
  metricsIntervalMs: number;
  maxQueueSpans: number;
}
