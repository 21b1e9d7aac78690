import { inflight } from '../../native/block-device.js';

const CHECK_MS = 1000;
/** Checks in a row without an answer, though one is waited for. Also a slow machine answers something in that time. */
const PATIENCE = 5;
/** The standby's: a pager that can still end itself has done so by then, and has said why. */
export const STANDBY_PATIENCE = 8;

export interface Watched {
  /** Requests answered so far. */
  answered(): number;
  /** Requests the kernel waits for. */
  waiting(): number;
}

/** Requests that the kernel waits for at a device; what its connection has to be read (`FrontEnd.hasUnread`) is one more. */
export function waitingAt(device: string, hasUnread: boolean): number {
  const { reads, writes } = inflight(device);
  return reads + writes + (hasUnread ? 1 : 0);
}

/**
 * Sees that requests are answered. A pager that dies is replaced by its standby at once; one that hangs holds every
 * sandbox that touches a page that is out, in a wait that no signal ends, and all who read their memory maps with them.
 */
export class Watchdog {
  private before = 0;
  private stuck = 0;

  /** `hangs` is called once for each time it hangs; never before the first answer: another pager would do no better. */
  constructor(
    private readonly watched: Watched,
    private readonly hangs: () => void,
    private readonly patience = PATIENCE,
  ) {}

  /** Returns what ends it. */
  start(): () => void {
    const timer = setInterval(() => this.check(), CHECK_MS).unref();
    return () => clearInterval(timer);
  }

  check(): void {
    const answered = this.watched.answered();
    const stuck = answered > 0 && answered === this.before && this.watched.waiting() > 0;
    this.before = answered;
    this.stuck = stuck ? this.stuck + 1 : 0;
    if (this.stuck === this.patience) this.hangs();
  }
}
