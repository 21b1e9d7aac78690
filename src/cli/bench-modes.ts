import type { Option } from 'commander';
import type { BenchOptions } from '../bench/bench.js';
import { DETECT_MODE } from './bench-detect.js';
import { MICRO_MODE } from './bench-micro.js';
import { REPLAY_MODES } from './bench-replay.js';

/** Something else that `agentzip bench` does when an option of its own is given, in place of running a workload. */
export interface BenchMode<Options extends BenchOptions = BenchOptions> {
  /** As commander takes it: `--micro`, `--replay <dir>`. */
  flags: string;
  description: string;
  /** Further options that only this mode takes; what they were given is in its flags. */
  options?: readonly Option[];
  /** `value` is the option's: true, or the text behind it. */
  run(value: string | true, flags: Options): Promise<void>;
}

/** One line each. */
export const BENCH_MODES: readonly BenchMode[] = [DETECT_MODE, MICRO_MODE, ...REPLAY_MODES];
