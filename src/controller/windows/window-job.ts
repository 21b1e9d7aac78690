import type { WindowSpan } from '../../otel/window.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import type { Claimant } from './turns.js';
import type { Window } from './window.js';

/** A window, whose it is, and where what happens in it is told. */
export interface WindowJob {
  readonly sandbox: Sandbox;
  readonly window: Window;
  readonly span: WindowSpan;
}

/** As who it asks for turns. */
export const claimantOf = ({ sandbox, window }: WindowJob): Claimant => ({
  key: sandbox.id,
  deadline: window.deadline,
  signal: window.signal,
});

/** What a sandbox's processes had at their last looks, pages. */
export function pagesOf(sandbox: Sandbox): { owned: number; out: number } {
  const total = { owned: 0, out: 0 };
  for (const { look } of sandbox.members.values()) {
    total.owned += look?.ownedPages ?? 0;
    total.out += look?.swappedPages ?? 0;
  }
  return total;
}
