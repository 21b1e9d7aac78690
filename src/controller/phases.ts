import type { EventType, Phase, WindowSummary } from './api.js';

export type EndReason = WindowSummary['reason'];

/** What an event means: the phase it leads to, and what becomes of the waiting window. */
export interface Transition {
  phase: Phase;
  /** The wait begins: open a window unless one is open. */
  opens: boolean;
  /** The wait is over: end the window and put back what the next tool will use. */
  ends: Extract<EndReason, 'first_token' | 'tool_start'> | null;
}

const TRANSITIONS: Readonly<Record<EventType, Transition>> = {
  llm_request_sent: { phase: 'llm_wait', opens: true, ends: null },
  llm_first_token: { phase: 'llm_streaming', opens: false, ends: 'first_token' },
  // A host that does not stream reports only the end of the response: it ends the wait as well as a first token does.
  llm_response_end: { phase: 'idle', opens: false, ends: 'first_token' },
  tool_start: { phase: 'tool_running', opens: false, ends: 'tool_start' },
  tool_end: { phase: 'idle', opens: false, ends: null },
};

export const transition = (type: EventType): Transition => TRANSITIONS[type];

export const isEventType = (type: string): type is EventType => Object.hasOwn(TRANSITIONS, type);
