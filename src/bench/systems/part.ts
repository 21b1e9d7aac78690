import type { Pools } from '../system.js';
import type { HostChanges } from './host-changes.js';
import type { Waiting } from './reclaimer.js';

/** One thing that a system is made of: where pages go, or what makes them go. */
export interface Part {
  /** Changes the host through `changes` alone, so that all of it is undone. */
  start?(changes: HostChanges): Promise<void>;
  addTemplate?(pid: number): void;
  addSandbox?(sandbox: Waiting): void;
  /** The model was asked: `sandbox` waits from now on. Nobody waits for what this starts. */
  waitBegan?(sandbox: Waiting): void;
  /** The first token is there: the sandbox will run. */
  waitEnded?(sandbox: Waiting): void;
  removeSandbox?(sandbox: Waiting): void;
  /** What it holds now; what is left out is zero. */
  pools?(): Promise<Partial<Omit<Pools, 'status'>>>;
  /** Before the changes are undone; also after a start that failed. */
  stop?(): Promise<void>;
  /** What a reader of its figures must know. Asked when the run is over and it has not stopped yet. */
  notes?(): string[];
  /** It turns swap on. */
  readonly swaps?: boolean;
  /** Put before the command of every program of the workload. */
  readonly launcher?: readonly string[];
}
