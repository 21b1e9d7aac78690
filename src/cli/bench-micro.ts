import { runMicro } from '../bench/micro/micro.js';
import type { BenchMode } from './bench-modes.js';
import { whole } from './options.js';

const SUBJECT_MIB = 128;
const FAULTS = 4096;
const ROUNDS = 5;

/** `agentzip bench --micro`: what one fault, page-out and restore cost, of AgentZip and of the kernel's own swap. */
export const MICRO_MODE: BenchMode = {
  flags: '--micro [rounds]',
  description: `measure faults, page-out and restore of AgentZip, zswap and zram by themselves; ${ROUNDS} rounds, or so many (takes --seed and --json)`,
  async run(value, { seed, json, command, screen, signal }) {
    const rounds = value === true ? ROUNDS : whole('bench', '--micro', 1, 50)(value);
    await runMicro({
      ...{ subjectMiB: SUBJECT_MIB, faults: FAULTS, rounds, seed, json, command, screen, signal },
    });
  },
};
