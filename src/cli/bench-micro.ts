import { Option } from 'commander';
import type { BenchOptions } from '../bench/bench.js';
import { runMicro } from '../bench/micro/micro.js';
import { type SwapSettings, ZRAM_ALGORITHMS } from '../bench/micro/result.js';
import { type TierName, TIERS } from '../bench/system.js';
import type { BenchMode } from './bench-modes.js';
import { whole } from './options.js';

const SUBJECT_MIB = 128;
const FAULTS = 4096;
const ROUNDS = 5;

interface MicroFlags extends BenchOptions {
  tier: TierName;
  zram: SwapSettings['zramAlgorithm'];
  subject: number;
}

/** `agentzip bench --micro`: what one fault, page-out and restore cost, of AgentZip and of the kernel's own swap. */
export const MICRO_MODE: BenchMode<MicroFlags> = {
  flags: '--micro [rounds]',
  description: `measure faults, page-out and restore of AgentZip, zswap and zram by themselves; ${ROUNDS} rounds, or so many (takes --seed and --json)`,
  options: [
    new Option('--tier <tier>', "AgentZip's: pager.tier of its policy")
      .choices(Object.keys(TIERS))
      .default('direct'),
    new Option('--zram <algorithm>', "by which the kernel's zram compresses")
      .choices(ZRAM_ALGORITHMS)
      .default('lzo-rle'),
    new Option('--subject <mib>', 'memory of the process that is measured')
      .argParser(whole('bench', '--subject', 1, 65_536))
      .default(SUBJECT_MIB),
  ],
  async run(value, { tier, zram: zramAlgorithm, subject: subjectMiB, seed, json, command, screen, signal }) {
    const rounds = value === true ? ROUNDS : whole('bench', '--micro', 1, 50)(value);
    const settings = { tier, zramAlgorithm, subjectMiB, faults: FAULTS, rounds };
    await runMicro({ ...settings, seed, json, command, screen, signal });
  },
};
