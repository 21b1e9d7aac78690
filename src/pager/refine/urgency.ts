import { schedule } from '../../native/process.js';
import { CpuGroup } from './cpu-group.js';

/**
 * How much a refine worker may take of a processor that others want too, by how full staging is. A page that waits costs
 * ten times its compressed size, so a host that is never idle must not leave all of them waiting.
 */
const STEPS = [
  { from: 1 / 8, share: 0 },
  { from: 1 / 64, share: 10 },
  { from: 0, share: 'idle' },
] as const;
export type Share = (typeof STEPS)[number]['share'];
/** Of a worker that has only the page in hand to finish, the first that is permitted. With a nice value it waits for others' slices. */
const HASTE = ['realtime', -20] as const;

/** `filled`: staged bytes over the bytes of staging there are. */
export const shareAt = (filled: number): Share => STEPS.find(({ from }) => filled >= from)!.share;

/** Sets what the refine workers' threads get of the processors. */
export class Urgency {
  /** Made with the first thread: a standby has none. */
  private group: CpuGroup | null | undefined;
  private readonly tids = new Set<number>();
  private readonly hastened = new Set<number>();
  private share: Share = 'idle';

  add(tid: number): void {
    if (this.group === undefined) this.group = CpuGroup.make();
    this.tids.add(tid);
    attempt(() => this.group?.enter(tid));
    attempt(() => schedule(tid, this.share));
  }

  drop(tid: number): void {
    this.tids.delete(tid);
    this.hastened.delete(tid);
  }

  update(filled: number): void {
    const share = shareAt(filled);
    if (share === this.share) return;
    this.share = share;
    attempt(() => this.group?.set(share));
    for (const tid of this.tids) if (!this.hastened.has(tid)) attempt(() => schedule(tid, share));
  }

  /** Its window is over: the page in hand must not wait for a processor until the tool runs. */
  hasten(tid: number): void {
    this.hastened.add(tid);
    // Within its group: it runs 0.3 ms later, and 10 ms later when it is moved out of the group before (6.18, busy host).
    for (const share of HASTE) if (attempt(() => schedule(tid, share))) return;
  }

  /** It has nothing of that window in hand any more. */
  settle(tid: number): void {
    if (this.hastened.delete(tid)) attempt(() => schedule(tid, this.share));
  }

  /** At the end of the process, which may have taken the place of one that was killed and come to no thread of its own. */
  end(): void {
    this.group?.remove();
    attempt(() => CpuGroup.clear());
  }
}

/** False: it is not permitted, or the thread has just ended. Then it takes as long as it takes: no page depends on it. */
function attempt(step: () => void): boolean {
  try {
    step();
    return true;
  } catch {
    return false;
  }
}
