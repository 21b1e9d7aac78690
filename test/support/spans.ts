import { readFileSync } from 'node:fs';

/** A span as it is in `otel.file`. */
export interface Span {
  name: string;
  spanId: string;
  parentSpanId?: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, string | number> }[];
  events?: { name: string; timeUnixNano: string }[];
}

export const readSpans = (file: string): Span[] =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).resourceSpans[0].scopeSpans[0].spans[0]);

export function attribute(span: Span, key: string): string | number | undefined {
  const value = span.attributes.find((entry) => entry.key === key)?.value;
  return value?.stringValue ?? (value === undefined ? undefined : Number(Object.values(value)[0]));
}
