import { Random as Stream } from '../../src/bench/random.js';

/** Seeded random numbers; AGENTZIP_TEST_SEED repeats a run. */
export class Random extends Stream {
  /** Integer in [0, limit). */
  below(limit: number): number {
    return this.integer(0, limit);
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.below(256));
  }
}

/** A fresh seed, or the one asked for; printed, so that a failure can be repeated. */
export function testRandom(name: string): Random {
  const seed = Number(process.env.AGENTZIP_TEST_SEED ?? Date.now() % 2 ** 31);
  process.stdout.write(`${name}: seed ${seed} (AGENTZIP_TEST_SEED=${seed} repeats it)\n`);
  return new Random(seed);
}
