import type { ServedTurn } from './llm.js';
import type { SandboxStatus, Status, SystemName } from './system.js';

/** All sandboxes at one instant; bytes, and Unix time in ms. */
export interface Sample {
  at: number;
  owned: number;
  swapped: number;
  pool: number;
  base: number;
  overhead: number;
  /** Pages in the swap cache that no process maps: the kernel drops them when it needs memory. */
  swapCache: number;
}

/** One sandbox when its model's first token arrived, measured before anybody was told. */
export interface WaitEnd {
  sandbox: string;
  turn: number;
  waitedMs: number;
  owned: number;
  /** Its part of the pool; see Sampler. */
  pool: number;
}

export interface CallRecord {
  sandbox: string;
  turn: number;
  tool: string;
  /** With the event that says that it starts, and without. */
  ms: number;
  aloneMs: number;
  /** The tool's answer, JSON text. */
  result: string;
}

/** Processor seconds: sandboxes, the system's two processes, kernel threads. */
export interface CpuSeconds {
  tools: number;
  controller: number;
  pager: number;
  kernel: number;
}

/** What one run of one system left behind for the report. */
export interface RunRecord {
  system: SystemName;
  /** First sandbox's start and last sandbox's end, Unix ms. */
  from: number;
  to: number;
  samples: Sample[];
  waits: WaitEnd[];
  /** The truth about the waits, as the model's server knows it. */
  served: ServedTurn[];
  /** By sandbox, in the order they were made. */
  calls: CallRecord[];
  /** The system's own account of each sandbox at its end. */
  accounts: SandboxStatus[];
  /** The system's status when most pages were out. */
  fullest: Status | null;
  cpu: CpuSeconds;
  /** Share of the machine's processor time in use, 0 to 1. */
  busyShare: number;
  /** What else ran on the machine, in words. */
  disturbances: string[];
  /** What the system could not do here. */
  notes: string[];
}

/**
 * The first difference between the answers of two runs of the same trajectories, or null. Compares text, byte by
 * byte, so that also a digest of untouched memory that changed is found.
 */
export function firstDifference(expected: RunRecord, actual: RunRecord): string | null {
  const key = (call: CallRecord, i: number): string =>
    `${i} ${call.sandbox} turn ${call.turn + 1} ${call.tool}`;
  const before = inOrder(expected);
  const after = inOrder(actual);
  for (let i = 0; i < Math.max(before.length, after.length); i++) {
    const [a, b] = [before[i], after[i]];
    if (a === undefined) return `${key(b, i)} was not called before`;
    if (b === undefined) return `${key(a, i)} was not called`;
    if (key(a, i) !== key(b, i)) return `${key(b, i)} instead of ${key(a, i)}`;
    if (a.result !== b.result) return `${key(a, i)} gave ${b.result}, not ${a.result}`;
  }
  return null;
}

/** Sandboxes finish in any order; within one, calls are in order already, and the sort is stable. */
const inOrder = (run: RunRecord): CallRecord[] =>
  [...run.calls].sort((a, b) => a.sandbox.localeCompare(b.sandbox, 'en', { numeric: true }));
