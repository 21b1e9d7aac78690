import { TraceFlags } from '@opentelemetry/api';
import type { ReadableSpan, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace-base';

const MAX_BATCH_SPANS = 256;
const BATCH_DELAY_MS = 1_000;
/** An exporter that has not answered by then has failed, whatever it does later. */
const EXPORT_TIMEOUT_MS = 5_000;

export interface SpanQueueOptions {
  exporter: SpanExporter;
  /** Ended spans kept until they are exported. */
  maxSpans: number;
  /** Time that `shutdown` may take at most, in ms. */
  shutdownMs: number;
}

/**
 * Queue between ended spans and an exporter that may be slow or dead. It holds `maxSpans` at most, exports one batch
 * at a time, and counts every span that got lost: refused by a full queue or in a batch that failed. The SDK's own
 * BatchSpanProcessor keeps no total of what it drops and waits at shutdown for as long as its exporter retries.
 */
export class SpanQueue implements SpanProcessor {
  /** Spans lost so far. */
  dropped = 0;
  private readonly spans: ReadableSpan[] = [];
  private timer: NodeJS.Timeout | undefined;
  private exporting: Promise<void> | undefined;
  private stopped: Promise<void> | undefined;

  constructor(private readonly options: SpanQueueOptions) {}

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    if (this.stopped || this.spans.length >= this.options.maxSpans) {
      this.dropped++;
      return;
    }
    this.spans.push(span);
    this.timer ??= setTimeout(() => void this.forceFlush(), BATCH_DELAY_MS).unref();
    if (this.spans.length >= MAX_BATCH_SPANS) void this.forceFlush();
  }

  /** Exports what is queued now. Never rejects: what can not be exported is counted. */
  forceFlush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.exporting ??= this.exportAll().finally(() => (this.exporting = undefined));
    return this.exporting;
  }

  shutdown(): Promise<void> {
    this.stopped ??= this.stop();
    return this.stopped;
  }

  private async stop(): Promise<void> {
    const flushed = (this.exporting ?? Promise.resolve()).then(() => this.forceFlush());
    await within(this.options.shutdownMs, flushed);
    this.dropped += this.spans.splice(0).length;
    await within(this.options.shutdownMs, this.options.exporter.shutdown());
  }

  private async exportAll(): Promise<void> {
    while (this.spans.length > 0) {
      const batch = this.spans.splice(0, MAX_BATCH_SPANS);
      const taken = await within(EXPORT_TIMEOUT_MS, this.exportBatch(batch));
      if (!taken) this.dropped += batch.length;
    }
  }

  private exportBatch(batch: ReadableSpan[]): Promise<boolean> {
    return new Promise((resolve) => {
      this.options.exporter.export(batch, (result) => resolve(result.code === 0));
    });
  }
}

/** What `work` gives, or undefined when it fails or takes longer than `ms`. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), ms)));
  try {
    return await Promise.race([work, late]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
