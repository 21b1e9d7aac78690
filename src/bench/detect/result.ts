import type { BenchResult } from '../result.js';
import type { Overhead } from './overhead.js';
import type { Score } from './score.js';

export interface DetectResult extends Score {
  schema: 'agentzip.detect/1';
  host: BenchResult['host'];
  startedAt: string;
  command: string;
  seed: number;
  sandboxes: number;
  turns: number;
  timeScale: number;
  definitions: Record<string, string>;
  /** What on this host may have shifted the figures, found before the start. */
  disturbances: string[];
  /** What the probes reported, and lost. */
  events: number;
  dropped: number;
  /** CPU time of this process, which detects and plays the model, over the run's wall time. */
  watchCpuShare: number;
  overhead: Overhead;
}

export const DEFINITIONS: Readonly<Record<string, string>> = {
  wait: "From a request's arrival at the model's server to the instant before its first token leaves.",
  precision: 'Time said to be llm_wait that was a wait, over all time said to be llm_wait.',
  recall: 'Time said to be llm_wait that was a wait, over all time that was a wait.',
  firstTokenMs:
    'From the instant before the first token leaves the server to the instant when the sandbox is no longer said to wait. Moments at which it was not said to wait do not count.',
  toolStartMs:
    "From the instant before an agent starts a tool's process to the instant when tool_running is said. A tool behind another one does not count.",
  missed: 'What was not said before it was over; it counts as 10 000 ms.',
  overhead:
    'CPU time of a process that only touches fresh pages, one store each: with the probes and not tracked, and tracked, over that without probes in the same round, less one. Medians. The probes are those that the service loads; untrackedFaults and trackedFaults: with the two of page faults as well, as with detect.faults: probes.',
};
