import { TraceFlags, type SpanContext } from '@opentelemetry/api';

const FORMAT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/**
 * The span that a W3C `traceparent` names, or why it names none (https://www.w3.org/TR/trace-context/#traceparent-header).
 * Versions above 00 may carry more fields, which are ignored; version ff is forbidden.
 */
export function parseTraceparent(text: string): SpanContext | { invalid: string } {
  const match = FORMAT.exec(text.trim());
  if (!match) return { invalid: 'it is not version-traceid-spanid-flags in lower-case hex' };
  const [, version, traceId, spanId, flags, more] = match;
  if (version === 'ff' || (version === '00' && more !== undefined)) return { invalid: `version ${version}` };
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return { invalid: 'an id is all zeros' };
  const traceFlags = parseInt(flags, 16) & TraceFlags.SAMPLED;
  return { traceId, spanId, traceFlags, isRemote: true };
}
