interface Flow {
  /** What it may still cost in this round; below 0: what it took beyond. */
  credit: number;
  /** When what it wants served should be done, on the queue's clock. */
  deadline: number;
  /** Counts up: who came first among equals. */
  arrival: number;
  waiting: boolean;
}

/**
 * Who is served next: deficit round robin with deadlines. Pure data, on a clock that is given.
 *
 * Each round gives every flow the same credit, `quantum`. Among those that wait and have credit the one whose deadline
 * comes first is served; a deadline that has passed was no use as a prediction and counts as none. A flow keeps what it
 * has left when it goes and comes back within a round, and a new round begins only when nobody who waits has any credit.
 * So deadlines reorder a round, and can not stretch it (Shreedhar and Varghese, SIGCOMM 1995, for the round robin).
 *
 * The bound: with N flows that ask for service and single costs of at most L ≤ quantum, a flow that joins is served
 * before the others together have cost 2 (N - 1) (quantum + L): at worst it has used up its credit, then the rest of this
 * round and its place in the next pass, and in each another flow costs less than quantum + L. One with credit waits for
 * half of that at most. No deadline, and no number of short windows, changes this.
 */
export class FairQueue<K> {
  private readonly flows = new Map<K, Flow>();
  private arrivals = 0;
  private waiting = 0;

  constructor(
    private readonly quantum: number,
    private readonly now: () => number,
  ) {}

  /** Nobody waits. */
  get empty(): boolean {
    return this.waiting === 0;
  }

  /** Waits for service from now on; for one that waits only the deadline changes. */
  join(key: K, deadline = Infinity): void {
    const flow = this.flow(key);
    flow.deadline = deadline;
    if (flow.waiting) return;
    flow.waiting = true;
    flow.arrival = this.arrivals++;
    this.waiting++;
  }

  /** Waits no longer. */
  leave(key: K): void {
    const flow = this.flows.get(key);
    if (flow?.waiting !== true) return;
    flow.waiting = false;
    this.waiting--;
  }

  /** Takes out whoever is to be served now. */
  next(): K | undefined {
    if (this.waiting === 0) return undefined;
    let key = this.first();
    if (key === undefined) {
      this.renew();
      key = this.first() as K;
    }
    this.leave(key);
    return key;
  }

  /** Service of a flow has cost so much, at most `quantum` at a time. */
  charge(key: K, cost: number): void {
    this.flow(key).credit -= cost;
  }

  /** Has it used up its credit of this round? Then it should join again before it goes on. */
  spent(key: K): boolean {
    return this.flow(key).credit <= 0;
  }

  private flow(key: K): Flow {
    let flow = this.flows.get(key);
    if (flow === undefined) {
      flow = { credit: this.quantum, deadline: Infinity, arrival: 0, waiting: false };
      this.flows.set(key, flow);
    }
    return flow;
  }

  /** Of those that wait and have credit the one whose deadline comes first. */
  private first(): K | undefined {
    const now = this.now();
    const due = ({ deadline }: Flow): number => (deadline <= now ? Infinity : deadline);
    let best: [K, Flow] | undefined;
    for (const entry of this.flows) {
      const [, flow] = entry;
      if (!flow.waiting || flow.credit <= 0) continue;
      const sooner = best === undefined || due(flow) < due(best[1]);
      if (sooner || (due(flow) === due(best![1]) && flow.arrival < best![1].arrival)) best = entry;
    }
    return best?.[0];
  }

  /** A new round. Flows that do not wait are forgotten: a round knows only those that took part in it. */
  private renew(): void {
    for (const [key, flow] of this.flows) {
      if (!flow.waiting) this.flows.delete(key);
      // Nobody who waits has any left, and nobody owes as much as a quantum.
      else flow.credit += this.quantum;
    }
  }
}
