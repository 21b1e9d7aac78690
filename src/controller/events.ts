import type { AgentZipError } from '../errors.js';
import type { Phase, PhaseSource, SkipReason, WindowSummary } from './api.js';

/** What the controller tells of as it happens. Times are milliseconds. */
export interface ControllerEvents {
  /** A sandbox does something else now. */
  phase: { sandbox: string; phase: Phase; source: PhaseSource };
  /** A waiting window has opened. `expectedMs` said the host, `predictedMs` is what it will probably last. */
  windowOpened: { sandbox: string; expectedMs: number | null; predictedMs: number | null };
  /** It is over and nothing works for it any more; its prefetch may still come. */
  windowEnded: { sandbox: string; window: WindowSummary };
  /** A window would have opened now, and `bytes` would have been asked to go: mode `observe`, or a dry run. */
  windowObserved: {
    sandbox: string;
    bytes: number;
    expectedMs: number | null;
    predictedMs: number | null;
  };
  /** The policy has changed: keys that hold now, and keys that differ and hold when AgentZip is started anew. */
  policyChanged: { changed: string[]; kept: string[] };
  /** The policy's file has changed and was refused; the old policy holds. */
  policyRefused: { error: AgentZipError };
  /** A wait was left alone. */
  windowSkipped: { sandbox: string; reason: SkipReason };
}
type Name = keyof ControllerEvents;
type Listener<N extends Name> = (event: ControllerEvents[N]) => unknown;

/** Who listens can harm nobody: what a listener throws, or rejects with, is told to `onFailure`. */
export class Events {
  onFailure: (error: unknown) => void = () => {};
  private readonly listeners: { [N in Name]?: Set<Listener<N>> } = {};

  /** Returns what ends the listening. */
  on<N extends Name>(name: N, listener: Listener<N>): () => void {
    const all: Set<Listener<N>> = (this.listeners[name] ??= new Set() as never);
    all.add(listener);
    return () => void all.delete(listener);
  }

  tell<N extends Name>(name: N, event: ControllerEvents[N]): void {
    for (const listener of [...(this.listeners[name] ?? [])]) {
      try {
        const result = listener(event);
        if (result instanceof Promise) result.catch((error: unknown) => this.onFailure(error));
      } catch (error) {
        this.onFailure(error);
      }
    }
  }
}
