import type { BenchMode } from './bench-modes.js';

const SANDBOXES = 8;
const TURNS = 12;
const ROUNDS = 30;

/** `agentzip bench --detect`: how well phases are found out when the host says nothing, and what the probes cost. */
export const DETECT_MODE: BenchMode = {
  flags: '--detect',
  description: `compare the phases found out by the probes alone with the truth; ${SANDBOXES} sandboxes of ${TURNS} turns (takes --sandboxes, --turns, --seed, --time-scale and --json)`,
  async run(
    _value,
    { sandboxes = SANDBOXES, turns = TURNS, seed, timeScale, json, command, screen, signal },
  ) {
    const { runDetect } = await import('../bench/detect/detect.js');
    await runDetect({
      ...{ sandboxes, turns, seed, timeScale, rounds: ROUNDS, json, command, screen, signal },
    });
  },
};
