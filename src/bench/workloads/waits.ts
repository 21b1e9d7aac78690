import { readFileSync } from 'node:fs';
import { packageRoot } from '../../paths.js';
import type { Random } from '../random.js';

/** One agent's waits, turn by turn; see the description in traces.json. */
interface Trace {
  firstTokenMs: number[];
  streamMs: number[];
}

export const TRACES = (
  JSON.parse(readFileSync(`${packageRoot}/src/bench/workloads/traces.json`, 'utf8')) as { traces: Trace[] }
).traces;

export interface Wait {
  /** From the request to the first token, and from there to the end of the stream. Milliseconds. */
  firstTokenMs: number;
  streamMs: number;
}

/** Every turn of all traces in a row, and where each stream of random numbers is in it. */
const TURNS: readonly Wait[] = TRACES.flatMap(({ firstTokenMs, streamMs }) =>
  firstTokenMs.map((ms, turn) => ({ firstTokenMs: ms, streamMs: streamMs[turn] })),
);
const places = new WeakMap<Random, number>();

/**
 * The next wait of the agent whose random numbers these are. Give each agent a stream of its own and ask once a turn:
 * the first call picks a turn of a trace, further calls follow the trace, so that slow turns come together as they do
 * in the traces. Where a trace ends the next one begins: so every turn is as likely as any other.
 */
export function planWait(random: Random): Wait {
  const at = places.get(random) ?? random.integer(0, TURNS.length);
  places.set(random, (at + 1) % TURNS.length);
  return { ...TURNS[at] };
}

/** The same, with both times multiplied by `timeScale`. */
export function planTurnWait(random: Random, timeScale: number): Wait {
  const { firstTokenMs, streamMs } = planWait(random);
  return { firstTokenMs: firstTokenMs * timeScale, streamMs: streamMs * timeScale };
}
