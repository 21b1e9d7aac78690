/** CLOCK_MONOTONIC, ms: the same in every process of the host, so that controller and pager may compare theirs. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** A difference greater than this is no jitter: somebody has set the clock. */
const JITTER_MS = 50;
let offset = Date.now() - monotonicMs();

/** A moment of {@link monotonicMs} as Unix time, ms, for spans. Moments keep their order and distance. */
export function unixMs(monotonic: number): number {
  const now = Date.now() - monotonicMs();
  if (Math.abs(now - offset) > JITTER_MS) offset = now;
  return monotonic + offset;
}
