/** Vectors a sandbox pages out before another that waits gets its turn: 16 MiB of 256 KiB each, some 70 ms. */
const SLICE_VECTORS = 64;

type Wake = () => void;

/** Waits to be woken from the list; false when the signal came first. */
function waitIn(list: Set<Wake>, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const wake = (): void => {
      signal.removeEventListener('abort', stop);
      resolve(true);
    };
    const stop = (): void => {
      list.delete(wake);
      resolve(false);
    };
    signal.addEventListener('abort', stop, { once: true });
    list.add(wake);
  });
}

/**
 * Who may move pages now. One page-out at a time, in order of arrival and in slices, so that neither a big sandbox nor
 * a late one starves; while anything is being restored, page-outs wait: a tool is about to need those pages.
 */
export class Turns {
  private readonly queue = new Set<Wake>();
  private readonly held = new Set<Wake>();
  private busy = false;
  private restores = 0;

  /** Nobody pages out or waits for a turn. */
  get idle(): boolean {
    return !this.busy;
  }

  /** Runs `job` at its turn; never when the signal comes first. `turn` is to be awaited before each vector. */
  async pageOut(signal: AbortSignal, job: (turn: () => Promise<void>) => Promise<void>): Promise<void> {
    let mine = await this.acquire(signal);
    let vectors = 0;
    const turn = async (): Promise<void> => {
      if (vectors++ >= SLICE_VECTORS && this.queue.size > 0) {
        this.release();
        mine = await this.acquire(signal);
        vectors = 1;
      }
      while (this.restores > 0 && (await waitIn(this.held, signal)));
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

  private async acquire(signal: AbortSignal): Promise<boolean> {
    if (!this.busy && !signal.aborted) {
      this.busy = true;
      return true;
    }
    // Whoever releases hands the turn over, so `busy` stays set.
    return waitIn(this.queue, signal);
  }

  private release(): void {
    const [next] = this.queue;
    this.busy = next !== undefined;
    if (next === undefined) return;
    this.queue.delete(next);
    next();
  }
}
