import { leastWindowMs, skipReason } from './admission.js';
import type { HostEvent, SkipReason } from '../api.js';
import type { Context } from '../context.js';
import type { Observer } from '../sandboxes/observer.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import type { WindowRunner } from './window-runner.js';

/** Opens windows for waits, unless they will not pay. */
export class WindowOpener {
  constructor(
    private readonly context: Context,
    private readonly runner: WindowRunner,
    private readonly observer: Observer,
    private readonly enabled: () => boolean,
  ) {}

  /** A wait begins with `event`. */
  use(sandbox: Sandbox, event: HostEvent): void {
    if (!this.may(sandbox)) return;
    const reason = this.consider(sandbox, event);
    if (reason === null) return;
    sandbox.skipWindow(reason);
    this.context.metrics.windowSkipped(reason);
    this.context.events.tell('windowSkipped', { sandbox: sandbox.id, reason });
  }

  /** The host has become short of memory: waits that were left alone may be used now, for what is left of them. */
  useAll(): void {
    for (const sandbox of this.context.registry.all()) {
      const { waiting } = sandbox;
      if (waiting === null || !this.may(sandbox)) continue;
      const { expectedMs } = waiting.event;
      const leftMs = expectedMs === undefined ? undefined : expectedMs - (Date.now() - waiting.since);
      this.consider(sandbox, { ...waiting.event, expectedMs: leftMs });
    }
  }

  private may(sandbox: Sandbox): boolean {
    const { policies } = this.context;
    const watches = policies.of(sandbox).mode !== 'off';
    return (
      this.enabled() &&
      watches &&
      sandbox.mode === 'reclaim' &&
      !sandbox.paused &&
      sandbox.window?.open !== true
    );
  }

  /** Opens a window, or says why not. */
  private consider(sandbox: Sandbox, event: HostEvent): SkipReason | null {
    const { policies, predictions, hostPressure } = this.context;
    const policy = policies.of(sandbox);
    const { expectedMs } = event;
    const { skippedInRow } = sandbox;
    const { medianMs, lowMs } = predictions.wait(sandbox, event.model);
    const costMs = predictions.windowCost(sandbox);
    const streamMs = policy.prefetch.start === 'first_token' ? 0 : predictions.streamAtLeast(sandbox);
    const prospect = { expectedMs, lowMs, costMs, streamMs, skippedInRow };
    const reason = skipReason(prospect, policy, hostPressure.short);
    const acted = policies.acts(sandbox);
    const { short: memoryShort } = hostPressure;
    const leastMs = leastWindowMs(policy, memoryShort);
    sandbox.judged = { at: Date.now(), reason, prospect, medianMs, leastMs, memoryShort, acted };
    if (reason !== null) return reason;
    if (acted) this.runner.open(sandbox, event, expectedMs ?? medianMs);
    else this.observer.open(sandbox, event, expectedMs ?? medianMs);
    return null;
  }
}
