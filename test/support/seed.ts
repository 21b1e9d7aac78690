/** Seeded random numbers (mulberry32); AGENTZIP_TEST_SEED repeats a run. */
export class Random {
  private state: number;

  constructor(readonly seed: number) {
    this.state = seed >>> 0;
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Integer in [0, limit). */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
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
