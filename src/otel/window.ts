import {
  ROOT_CONTEXT,
  trace,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
} from '@opentelemetry/api';
import { ATTRIBUTES, SPANS, type ChildSpan, type EventName } from './names.js';
import { parseTraceparent } from './traceparent.js';

/**
 * The spans of one waiting window. The window is a trace of its own with a link to the host's span: the host's trace
 * often ends before, and is sampled by rules that are not ours.
 */
export class WindowSpan {
  private constructor(
    private readonly tracer: Tracer,
    private readonly span: Span,
    private readonly context: Context,
  ) {}

  /**
   * Begun at `startTime` (Unix ms) or now. An invalid `traceparent` is left out and named in an attribute; it never fails
   * the window.
   */
  static start(
    tracer: Tracer,
    sandbox: string,
    template: string | null,
    traceparent?: string,
    startTime?: number,
  ): WindowSpan {
    const attributes: Attributes = { [ATTRIBUTES.sandbox]: sandbox };
    if (template !== null) attributes[ATTRIBUTES.template] = template;
    const host = traceparent === undefined ? undefined : parseTraceparent(traceparent);
    if (host && 'invalid' in host) attributes[ATTRIBUTES.traceparentInvalid] = host.invalid;
    const links = host && 'traceId' in host ? [{ context: host }] : [];
    const span = tracer.startSpan(SPANS.window, { attributes, links, startTime }, ROOT_CONTEXT);
    return new WindowSpan(tracer, span, trace.setSpan(ROOT_CONTEXT, span));
  }

  /** A step of the window, begun at `startTime` (Unix ms) or now; the caller sets its attributes and ends it. */
  child(step: ChildSpan, attributes: Attributes = {}, startTime?: number): Span {
    return this.tracer.startSpan(SPANS[step], { attributes, startTime }, this.context);
  }

  /** A phase that is reached, or something worth noting, at `time` (Unix ms) or now. */
  event(name: EventName, attributes: Attributes = {}, time?: number): void {
    this.span.addEvent(name, attributes, time);
  }

  /** `reason` is why the window ended, as in WindowSummary, at `time` (Unix ms) or now. A second call does nothing. */
  end(reason: string, attributes: Attributes = {}, time?: number): void {
    if (!this.span.isRecording()) return;
    this.span.setAttributes({ ...attributes, [ATTRIBUTES.endReason]: reason });
    this.span.end(time);
  }
}

/** Attributes of a step that turned `bytesIn` into `bytesOut`. */
export function sizeAttributes(pages: number, bytesIn: number, bytesOut: number): Attributes {
  return {
    [ATTRIBUTES.pages]: pages,
    [ATTRIBUTES.bytesIn]: bytesIn,
    [ATTRIBUTES.bytesOut]: bytesOut,
    ...(bytesOut > 0 && { [ATTRIBUTES.ratio]: bytesIn / bytesOut }),
  };
}
