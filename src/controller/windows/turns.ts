import { FairQueue } from '../../schedule/fair-queue.js';

/** Vectors a sandbox pages out in a round while others wait: 16 MiB of 256 KiB each, some 70 ms. */
export const SLICE_VECTORS = 64;

type Wake = () => void;

/** Who asks for turns: a sandbox, in one window. */
export interface Claimant {
  readonly key: string;
  /** When its window will probably end, Unix ms; Infinity: not known. */
  readonly deadline: number;
  /** Aborts when its window ends. */
  readonly signal: AbortSignal;
}

/**
 * Who may move pages now. One page-out at a time, in slices, in the order of {@link FairQueue}, so that no big sandbox,
 * late one or crowd of hurried ones starves another: of N sandboxes that want turns one waits for 2 (N - 1) slices of the
 * others at most. While anything is being restored page-outs wait: a tool is about to need those pages.
 */
export class Turns {
  private readonly queue: FairQueue<string>;
  private readonly wakes = new Map<string, Wake>();
  private readonly held = new Set<Wake>();
  private busy = false;
  private restores = 0;

  constructor(now: () => number = Date.now) {
    this.queue = new FairQueue(SLICE_VECTORS, now);
  }

  /** Nobody pages out or waits for a turn. */
  get idle(): boolean {
    return !this.busy;
  }

  /** Runs `job` at its turn; never when the signal comes first. `turn` is to be awaited before each vector. */
  async pageOut(who: Claimant, job: (turn: () => Promise<void>) => Promise<void>): Promise<void> {
    let mine = await this.acquire(who);
    const turn = async (): Promise<void> => {
      if (!mine) return;
      if (this.queue.spent(who.key)) {
        const again = this.wait(who);
        this.release();
        if (!(mine = await again)) return;
      }
      this.queue.charge(who.key, 1);
      while (this.restores > 0 && (await this.hold(who.signal)));
    };
    try {
      if (mine) await job(turn);
    } finally {
      if (mine) this.release();
    }
  }

  async restore<T>(job: () => Promise<T>): Promise<T> {
    this.restores++;
    try {
      return await job();
    } finally {
      if (--this.restores === 0) {
        for (const wake of this.held) wake();
        this.held.clear();
      }
    }
  }

  private async acquire(who: Claimant): Promise<boolean> {
    if (this.busy || who.signal.aborted) return this.wait(who);
    return (this.busy = true);
  }

  /** Whoever releases hands the turn over, so `busy` stays set. */
  private wait({ key, deadline, signal }: Claimant): Promise<boolean> {
    return woken(signal, (wake) => {
      this.queue.join(key, deadline);
      this.wakes.set(key, wake);
      return () => {
        this.queue.leave(key);
        this.wakes.delete(key);
      };
    });
  }

  private hold(signal: AbortSignal): Promise<boolean> {
    return woken(signal, (wake) => {
      this.held.add(wake);
      return () => this.held.delete(wake);
    });
  }

  private release(): void {
    const next = this.queue.next();
    this.busy = next !== undefined;
    if (next === undefined) return;
    const wake = this.wakes.get(next);
    this.wakes.delete(next);
    wake?.();
  }
}

/** Waits to be woken; false when the signal came first, which undoes what `enlist` did. */
function woken(signal: AbortSignal, enlist: (wake: Wake) => () => void): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const stop = (): void => {
      withdraw();
      resolve(false);
    };
    signal.addEventListener('abort', stop, { once: true });
    const withdraw = enlist(() => {
      signal.removeEventListener('abort', stop);
      resolve(true);
    });
  });
}
