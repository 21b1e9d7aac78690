import { threadCpuMs } from '../../native/process.js';
import { Random } from '../random.js';
import { quantile } from '../stats.js';
import { type Encoding, ENCODINGS, encodingOf } from './figures.js';
import type { ReplayStore } from './replay-store.js';

export interface Times {
  pages: number;
  mean: number;
  p50: number;
  p99: number;
}

/** CPU time of reading a page back, hash checked, µs; by how it is stored, where there are any; and of pages in their order. */
export interface DecodeTimes {
  all: Times;
  inOrder: Times;
  byEncoding: Partial<Record<Encoding, Times>>;
}

const MOST_SAMPLES = 20_000;
const CALIBRATIONS = 1001;
/** Pages read in their order, as a prefetch does, from a random one on. */
const RUN = 500;

const microseconds = (work: () => void): number => {
  const started = threadCpuMs();
  work();
  return (threadCpuMs() - started) * 1000;
};

/** Reads slots in random order, as faults do, then runs of them; takes what the clock itself costs off each time. */
export function timeDecoding(store: ReplayStore, slots: number, seed: number): DecodeTimes {
  const idle = Array.from({ length: CALIBRATIONS }, () => microseconds(() => undefined));
  const clock = quantile(idle, 0.5);
  const random = new Random(seed, 'decode');
  const times = new Map<Encoding, number[]>(ENCODINGS.map((name) => [name, []]));
  const read = (slot: number): number => Math.max(0, microseconds(() => store.read(slot)) - clock);
  const samples = Math.min(slots, MOST_SAMPLES);
  for (let i = 0; i < samples; i++) {
    const slot = random.integer(0, slots);
    times.get(encodingOf(store.tables, slot))!.push(read(slot));
  }
  const inOrder: number[] = [];
  while (inOrder.length < samples) {
    const first = random.integer(0, slots);
    for (let slot = first; slot < Math.min(first + RUN, slots); slot++) inOrder.push(read(slot));
  }
  const summary = (values: number[]): Times => ({
    pages: values.length,
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    p50: quantile(values, 0.5),
    p99: quantile(values, 0.99),
  });
  const met = [...times].filter(([, values]) => values.length > 0);
  return {
    all: summary(met.flatMap(([, values]) => values)),
    inOrder: summary(inOrder),
    byEncoding: Object.fromEntries(met.map(([name, values]) => [name, summary(values)])),
  };
}
