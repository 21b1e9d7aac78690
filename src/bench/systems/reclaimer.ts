import { Worker } from 'node:worker_threads';
import { AgentZipError } from '../../errors.js';
import { packageRoot } from '../../paths.js';

const WORKER = `${packageRoot}/dist/bench/systems/reclaim-worker.js`;
/** Sandboxes of one run, those that have ended among them. */
const MOST_SANDBOXES = 4096;

/** What the thread can be asked for. `place` and `wait` say in which word, and with what value, the wait still lasts. */
export type Job =
  | { op: 'pageOut'; cgroup: string; place: number; wait: number }
  | { op: 'limit'; cgroup: string; place: number; wait: number; share: number }
  | { op: 'soleKsm'; cgroups: string[] }
  | { op: 'mappedKsm'; pids: number[] };

/** Pages; nothing for `limit`. */
export type JobResult = { id: number; value: number } | { id: number; error: string };

export interface ReclaimWorkerData {
  waits: SharedArrayBuffer;
  cpu: SharedArrayBuffer;
}

/** A sandbox of the run, and its waits. */
export interface Waiting {
  readonly cgroup: string;
  /** Begins a wait, which ends the one before. */
  begin(): void;
  end(): void;
  /** Whether the wait that `begin` began last still lasts. */
  lasts(): boolean;
  /** Pages the sandbox out; resolves when done or when the wait has ended. */
  pageOut(): Promise<void>;
  /** See MemoryLimit.lower. */
  limit(share: number): Promise<void>;
}

/**
 * The thread that does to the sandboxes what these systems do: one job after the other, so that they take at most
 * one processor from the tools. A thread, and not the bench's own, because reclaim blocks; its processor time is the
 * system's.
 */
export class Reclaimer {
  private readonly waits = new SharedArrayBuffer(4 * MOST_SANDBOXES);
  private readonly cpu = new SharedArrayBuffer(8);
  private readonly worker: Worker;
  private readonly asked = new Map<number, { resolve(value: number): void; reject(error: Error): void }>();
  private jobs = 0;
  private places = 0;
  private failure: Error | undefined;
  private ended = false;

  constructor() {
    const workerData: ReclaimWorkerData = { waits: this.waits, cpu: this.cpu };
    this.worker = new Worker(WORKER, { workerData });
    this.worker.on('message', (result: JobResult) => {
      const { resolve, reject } = this.asked.get(result.id) ?? {};
      this.asked.delete(result.id);
      if ('value' in result) resolve?.(result.value);
      else reject?.(this.failed(result.error));
    });
    this.worker.on('error', (error) => this.lose(this.failed(error.message)));
    this.worker.on('exit', () => this.lose(this.failed('its thread ended')));
  }

  /** Seconds of processor time so far. */
  get cpuSeconds(): number {
    return new Float64Array(this.cpu)[0] / 1000;
  }

  /** Throws what went wrong in a job nobody waited for. */
  check(): void {
    if (this.failure !== undefined) throw this.failure;
  }

  /** AZ_WORKLOAD_FAILED when the thread fails at it. */
  ask(job: Job): Promise<number> {
    if (this.ended) return Promise.reject(this.failed('its thread has ended'));
    const id = ++this.jobs;
    this.worker.postMessage({ id, job });
    return new Promise((resolve, reject) => this.asked.set(id, { resolve, reject }));
  }

  add(cgroup: string): Waiting {
    const place = this.places++ % MOST_SANDBOXES;
    const words = new Int32Array(this.waits);
    let wait = 0;
    const start = async (job: Job): Promise<void> => {
      try {
        await this.ask(job);
      } catch (error) {
        if (!this.ended) this.failure ??= error as Error;
      }
    };
    return {
      cgroup,
      begin: () => void Atomics.store(words, place, ++wait),
      end: () => void Atomics.store(words, place, 0),
      lasts: () => wait !== 0 && Atomics.load(words, place) === wait,
      pageOut: () => start({ op: 'pageOut', cgroup, place, wait }),
      limit: (share) => start({ op: 'limit', cgroup, place, wait, share }),
    };
  }

  /** Ends the thread once the job in progress is done; the rest are dropped. Harmless when it has ended. */
  async stop(): Promise<void> {
    this.ended = true;
    new Int32Array(this.waits).fill(0);
    await this.worker.terminate();
  }

  private lose(error: Error): void {
    if (!this.ended) this.failure ??= error;
    this.ended = true;
    for (const { reject } of this.asked.values()) reject(error);
    this.asked.clear();
  }

  private failed(reason: string): AgentZipError {
    return new AgentZipError('AZ_WORKLOAD_FAILED', {
      reason: `the pageouter: ${reason}`,
      log: 'the kernel log',
    });
  }
}
