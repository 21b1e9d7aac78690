import { cgroupMemory } from '../../memory/cgroup-reclaim.js';
import { PAGE } from '../../native/libc.js';
import { ATTRIBUTES } from '../../otel/names.js';
import { WindowSpan } from '../../otel/window.js';
import type { HostEvent, WouldPageOut } from '../api.js';
import type { Context } from '../context.js';
import type { EndReason } from '../phases.js';
import type { Sandbox } from './sandbox.js';

/** Says what would be done in waits, and does nothing: for mode `observe`, and for all modes in a dry run. */
export class Observer {
  /** Waits that are going on. */
  private readonly spans = new WeakMap<Sandbox, WindowSpan>();

  constructor(private readonly context: Context) {}

  /** A window would open now; `predictedMs`: how long it would probably last, null: not known. */
  open(sandbox: Sandbox, event: HostEvent, predictedMs: number | null): void {
    const { telemetry, events } = this.context;
    const bytes = this.wouldGo(sandbox);
    const would: WouldPageOut = { at: Date.now(), bytes, expectedMs: event.expectedMs ?? null, predictedMs };
    sandbox.observedWindows++;
    sandbox.wouldPageOut = would;
    const template = sandbox.spec.template ?? null;
    const span = WindowSpan.start(telemetry.tracer, sandbox.id, template, event.traceparent);
    span.event('request', {
      ...(would.expectedMs !== null && { [ATTRIBUTES.expectedMs]: would.expectedMs }),
      ...(predictedMs !== null && { [ATTRIBUTES.predictedMs]: predictedMs }),
    });
    this.spans.set(sandbox, span);
    events.tell('windowObserved', { sandbox: sandbox.id, bytes, expectedMs: would.expectedMs, predictedMs });
  }

  /** The wait is over. */
  end(sandbox: Sandbox, reason: EndReason): void {
    const bytes = sandbox.wouldPageOut?.bytes ?? 0;
    this.spans.get(sandbox)?.end(reason, {
      [ATTRIBUTES.dryRun]: true,
      [ATTRIBUTES.pages]: bytes / PAGE,
      [ATTRIBUTES.bytesIn]: bytes,
    });
    this.spans.delete(sandbox);
  }

  /** What a page-out would be asked for: all that it owns, but for what may not go and what is hot. */
  private wouldGo(sandbox: Sandbox): number {
    const { registry, info, policies } = this.context;
    const { hotPhases } = policies.of(sandbox).pageout;
    registry.refresh(sandbox);
    const { reclaimCgroup } = sandbox;
    if (reclaimCgroup !== null) return cgroupMemory(reclaimCgroup)?.presentBytes ?? 0;
    let bytes = 0;
    for (const member of sandbox.members.values()) {
      member.refresh({ flags: true, swapType: info.swapType });
      for (const { length } of member.goingOut(hotPhases)) bytes += length;
    }
    return bytes;
  }
}
