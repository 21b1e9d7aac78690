import type { RunRecord } from './record.js';
import type { Bystanders } from './result.js';
import { quantile, quantiles, spread } from './stats.js';

/** What tools of the sandboxes that never wait took; null when there are none. `baseline` has a run for each of `runs`. */
export function summarizeBystanders(
  names: ReadonlySet<string>,
  runs: readonly RunRecord[],
  baseline: readonly RunRecord[],
): Bystanders | null {
  if (names.size === 0) return null;
  // Without the event: the controller answers it, and a host need not wait for that.
  const times = ({ calls }: RunRecord): number[] =>
    calls.filter(({ sandbox }) => names.has(sandbox)).map(({ aloneMs }) => aloneMs);
  const slowdown = (q: number) =>
    spread(runs.map((run, i) => quantile(times(run), q) / quantile(times(baseline[i]), q)));
  const all = runs.flatMap(times);
  return {
    sandboxes: names.size,
    calls: all.length,
    toolMs: quantiles(all),
    slowdown: { p50: slowdown(0.5), p95: slowdown(0.95), p99: slowdown(0.99) },
  };
}
