import { AgentZipError } from '../../errors.js';
import { ATTRIBUTES, SPANS } from '../../otel/names.js';

/** One moment of a span. Times here are Unix ms. */
export interface Moment {
  name: string;
  at: number;
}

/** A span as it is drawn. */
export interface Step {
  name: string;
  from: number;
  to: number;
  events: Moment[];
  attributes: ReadonlyMap<string, string | number>;
}

/** A window, and what was done for it in the order in which it began. */
export interface Trace {
  id: string;
  window: Step;
  steps: Step[];
}

interface OtlpSpan {
  traceId: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, string | number> }[];
  events?: { name: string; timeUnixNano: string }[];
}

const msOf = (nanoseconds: string): number => Number(nanoseconds) / 1e6;

function stepOf(span: OtlpSpan): Step {
  return {
    name: span.name,
    from: msOf(span.startTimeUnixNano),
    to: msOf(span.endTimeUnixNano),
    events: (span.events ?? []).map(({ name, timeUnixNano }) => ({ name, at: msOf(timeUnixNano) })),
    // Whole numbers come as text, as OTLP has it.
    attributes: new Map(
      span.attributes.map(({ key, value }) => [key, value.stringValue ?? Number(Object.values(value)[0])]),
    ),
  };
}

/** The traces of windows in the text of an `otel.file`, in their order. Errors: AZ_TRACE_INVALID. */
export function parseTraces(text: string): Trace[] {
  const traces = new Map<string, Step[]>();
  text.split('\n').forEach((line, i) => {
    if (line.trim() === '') return;
    try {
      const span = JSON.parse(line).resourceSpans[0].scopeSpans[0].spans[0] as OtlpSpan;
      traces.set(span.traceId, [...(traces.get(span.traceId) ?? []), stepOf(span)]);
    } catch {
      throw new AgentZipError('AZ_TRACE_INVALID', { line: i + 1 });
    }
  });
  return [...traces].flatMap(([id, spans]) => {
    const window = spans.find(({ name }) => name === SPANS.window);
    const steps = spans.filter((span) => span !== window).sort((a, b) => a.from - b.from);
    return window === undefined ? [] : [{ id, window, steps }];
  });
}

/** The one that shows most: of those with most kinds of steps the one with most pages. */
export function mostTelling(traces: readonly Trace[]): Trace | undefined {
  const kinds = ({ steps }: Trace): number => new Set(steps.map(({ name }) => name)).size;
  const pages = ({ window }: Trace): number => Number(window.attributes.get(ATTRIBUTES.pages) ?? 0);
  return traces.toSorted((a, b) => kinds(b) - kinds(a) || pages(b) - pages(a))[0];
}
