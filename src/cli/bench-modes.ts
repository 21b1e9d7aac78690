import type { Option } from 'commander';
import type { Screen } from '../bench/live.js';
import { MICRO_MODE } from './bench-micro.js';
import { REPLAY_MODES } from './bench-replay.js';

/** What was given to `agentzip bench`, defaults filled in. */
export interface BenchFlags {
  workload: string;
  systems: string[];
  runs: number;
  sandboxes?: number;
  turns?: number;
  seed: number;
  timeScale: number;
  json?: string;
  report?: string;
  spans?: string;
  files: string;
  /** What was typed, for results. */
  command: string;
  screen: Screen;
  /** Aborted by Ctrl-C, SIGTERM, SIGHUP or a closed output: clean up, and throw its reason. */
  signal: AbortSignal;
}

/** Something else that `agentzip bench` does when an option of its own is given, in place of running a workload. */
export interface BenchMode<Flags extends BenchFlags = BenchFlags> {
  /** As commander takes it: `--micro`, `--replay <dir>`. */
  flags: string;
  description: string;
  /** Further options that only this mode takes; what they were given is in its flags. */
  options?: readonly Option[];
  /** `value` is the option's: true, or the text behind it. */
  run(value: string | true, flags: Flags): Promise<void>;
}

/** One line each. */
export const BENCH_MODES: readonly BenchMode[] = [MICRO_MODE, ...REPLAY_MODES];
