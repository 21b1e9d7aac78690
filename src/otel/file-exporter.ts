import { close, openSync, write } from 'node:fs';
import { promisify } from 'node:util';
import { JsonTraceSerializer } from '@opentelemetry/otlp-transformer';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base';
import { AgentZipError } from '../errors.js';

const writeFile = promisify(write);
const closeFile = promisify(close);
/** ExportResultCode of @opentelemetry/core. */
const SUCCESS = 0;
const FAILED = 1;
const NEWLINE = Buffer.from('\n');

/** Appends spans to a file: OTLP JSON, each line a whole `{"resourceSpans": […]}` with one span. */
export class FileSpanExporter implements SpanExporter {
  private readonly fd: number;
  private closed: Promise<void> | undefined;

  /** Errors: AZ_OTEL_FILE when the file can not be opened for writing. */
  constructor(file: string) {
    try {
      this.fd = openSync(file, 'a', 0o600);
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code ?? String(error);
      throw new AgentZipError('AZ_OTEL_FILE', { file, reason }, { cause: error });
    }
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter['export']>[1]): void {
    const lines = spans.flatMap((span) => {
      const line = JsonTraceSerializer.serializeRequest([span]);
      return line ? [line, NEWLINE] : [];
    });
    this.append(Buffer.concat(lines)).then(
      () => done({ code: SUCCESS }),
      (error: Error) => done({ code: FAILED, error }),
    );
  }

  shutdown(): Promise<void> {
    return (this.closed ??= closeFile(this.fd));
  }

  private async append(bytes: Buffer): Promise<void> {
    for (let offset = 0; offset < bytes.length;) {
      offset += (await writeFile(this.fd, bytes, offset)).bytesWritten;
    }
  }
}
