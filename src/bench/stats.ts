export interface Spread {
  median: number;
  min: number;
  max: number;
}

export interface Quantiles {
  p50: number;
  p95: number;
  p99: number;
}

/** Quantile `q` in [0, 1] by linear interpolation between order statistics; NaN of nothing. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length === 0) return NaN;
  const at = q * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

export const quantiles = (values: readonly number[]): Quantiles => ({
  p50: quantile(values, 0.5),
  p95: quantile(values, 0.95),
  p99: quantile(values, 0.99),
});

export const spread = (values: readonly number[]): Spread => ({
  median: quantile(values, 0.5),
  min: Math.min(...values),
  max: Math.max(...values),
});

export const mean = (values: readonly number[]): number =>
  values.length === 0 ? NaN : values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * Time average over [from, to] of a quantity sampled at instants `at` (ascending), which is held from one sample
 * to the next. The first sample also stands for what came before it.
 */
export function timeAverage(
  at: readonly number[],
  values: readonly number[],
  from: number,
  to: number,
): number {
  let area = 0;
  for (let i = 0; i < at.length; i++) {
    const begin = i === 0 ? from : Math.max(at[i], from);
    const end = Math.min(i + 1 < at.length ? at[i + 1] : to, to);
    if (end > begin) area += values[i] * (end - begin);
  }
  return area / (to - from);
}
