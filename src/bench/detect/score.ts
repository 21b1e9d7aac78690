import { quantile } from '../stats.js';
import { type Interval, overlap, type Timeline, total } from './timeline.js';

/** What really happened in one sandbox; ms of the timeline's clock. */
export interface Truth {
  /** From the request's arrival at the model to its first token, and to the end of its answer. */
  turns: { requestAt: number; firstTokenAt: number; endAt: number }[];
  /** The tools, from before the process is started to after its end. */
  tools: Interval[];
}

export interface Observed {
  truth: Truth;
  said: Timeline;
  /** End of the observation. */
  end: number;
}

export interface Times {
  p50: number;
  p95: number;
  p99: number;
  max: number;
  /** Moments that count, and how many of them were not noticed before the phase was over. */
  count: number;
  missed: number;
}

export interface Score {
  /** Time said to be a wait that was one, over all time said to be; and over all time that was one. */
  precision: number;
  recall: number;
  firstTokenMs: Times;
  toolStartMs: Times;
}

/** A missed moment counts as noticed after this: so that quantiles do not hide it. */
export const MISSED_MS = 10_000;

function timesOf(noticed: readonly (number | null)[]): Times {
  const ms = noticed.map((time) => time ?? MISSED_MS);
  const at = (q: number): number => (ms.length === 0 ? 0 : quantile(ms, q));
  const missed = noticed.filter((time) => time === null).length;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1), count: ms.length, missed };
}

/** Compares what was said with what was; of all sandboxes together, weighted by time. */
export function score(observed: readonly Observed[]): Score {
  let both = 0;
  let saidMs = 0;
  let trueMs = 0;
  const firstTokens: (number | null)[] = [];
  const toolStarts: (number | null)[] = [];
  for (const { truth, said, end } of observed) {
    const waits = truth.turns.map(({ requestAt, firstTokenAt }): Interval => [requestAt, firstTokenAt]);
    const detected = said.within('llm_wait', end);
    both += overlap(waits, detected);
    saidMs += total(detected);
    trueMs += total(waits);
    for (const { firstTokenAt, endAt } of truth.turns) {
      // A first token ends something only where a wait was said to be.
      if (said.phaseAt(firstTokenAt) !== 'llm_wait') continue;
      firstTokens.push(said.noticed(firstTokenAt, endAt, 'llm_streaming', 'tool_running', 'idle', 'unknown'));
    }
    for (const [start, stop] of truth.tools) {
      // The tool behind another one is no change.
      if (said.phaseAt(start) === 'tool_running') continue;
      toolStarts.push(said.noticed(start, stop, 'tool_running'));
    }
  }
  return {
    precision: saidMs === 0 ? 0 : both / saidMs,
    recall: trueMs === 0 ? 0 : both / trueMs,
    firstTokenMs: timesOf(firstTokens),
    toolStartMs: timesOf(toolStarts),
  };
}
