import { Option } from 'commander';
import type { BenchOptions } from '../bench/bench.js';
import type { BenchMode } from './bench-modes.js';
import { decimal, whole } from './options.js';

const DEFAULT_LIMIT_MIB = 4096;

interface CaptureFlags extends BenchOptions {
  captureTurn?: number;
  captureLimit: number;
}

const capture: BenchMode<CaptureFlags> = {
  flags: '--capture <dir>',
  description:
    'run the workload once without a memory system, and write what its waiting sandboxes own there',
  options: [
    new Option(
      '--capture-turn <n>',
      'turn at the end of whose wait a sandbox is captured; default: its last',
    ).argParser(whole('bench', '--capture-turn', 1, 200)),
    new Option('--capture-limit <mib>', 'most MiB of all its files together')
      .argParser(whole('bench', '--capture-limit', 1, 2 ** 20))
      .default(DEFAULT_LIMIT_MIB),
  ],
  async run(value, flags) {
    const { runCapture } = await import('../bench/replay/run-capture.js');
    const { captureTurn: turn, captureLimit: limitMiB } = flags;
    await runCapture({ ...flags, folder: String(value), turn, limitMiB });
  },
};

interface ReplayFlags extends BenchOptions {
  level?: number;
  cutoff?: number;
  candidates?: number;
  delta: boolean;
  siblings: boolean;
  duplicates: boolean;
  dictionary: boolean;
  clusters: boolean;
}

const replay: BenchMode<ReplayFlags> = {
  flags: '--replay <dir>',
  description: 'put page dumps through codec and store alone; --sandboxes and --json apply',
  options: [
    new Option('--level <n>', "zstd level; default: the policy's").argParser(
      whole('bench', '--level', 1, 22),
    ),
    new Option('--cutoff <x>', 'share of a page from which it stays raw').argParser(
      decimal('bench', '--cutoff', 0.1, 1),
    ),
    new Option('--candidates <n>', 'bases tried from each sketch index').argParser(
      whole('bench', '--candidates', 0, 16),
    ),
    new Option('--no-delta', 'no deltas'),
    new Option('--no-siblings', 'no deltas against pages of other sandboxes'),
    new Option('--no-duplicates', 'no sharing of equal pages'),
    new Option('--no-clusters', 'no pages compressed together'),
    new Option('--no-dictionary', 'no dictionary for pages without a base'),
  ],
  async run(
    value,
    { level, cutoff, candidates, delta, siblings, duplicates, dictionary, clusters, ...flags },
  ) {
    const { runReplay } = await import('../bench/replay/replay.js');
    const given = Object.entries({ level, cutoff, candidates }).filter(
      ([, setting]) => setting !== undefined,
    );
    const encoding = { ...Object.fromEntries(given), delta, siblings, duplicates, dictionary, clusters };
    await runReplay({ ...flags, folder: String(value), encoding });
  },
};

export const REPLAY_MODES = [capture, replay];
