import { AgentZipError } from '../../errors.js';
import { Zram } from '../../memory/zram.js';
import type { Context } from '../context.js';
import type { WindowJob } from './window-job.js';

const PAGES_A_MIB = 256;
/** What nobody touches for so long is written back, where single pages can not be named. */
const IDLE_MS = 1_000;

/** With zram before the pager's device: sends what a waiting sandbox has out from zram's memory down to it. */
export class WriteBack {
  /** The kernel writes back for one at a time. */
  private turn: Promise<unknown> = Promise.resolve();

  constructor(private readonly context: Context) {}

  /** Returns how many pages were written; 0 where there is no zram of ours. */
  all(job: WindowJob): Promise<number> {
    if (this.context.info.tier !== 'zram') return Promise.resolve(0);
    const mine = this.turn.then(() => this.write(job));
    this.turn = mine.catch(() => {});
    return mine;
  }

  private async write({ sandbox, window }: WindowJob): Promise<number> {
    const { info, policy } = this.context;
    if (!window.open) return 0;
    const zram = new Zram(info.device);
    await zram.limit(policy.pager.writebackMiB * PAGES_A_MIB);
    const slots: number[] = [];
    for (const member of sandbox.members.values())
      member.lookAgain(info.swapType)?.slots.forEach((_page, slot) => slots.push(slot));
    const ended = (): boolean => !window.open;
    try {
      return await zram.writeBack(slots, ended);
    } catch (error) {
      const isUnknown = error instanceof AgentZipError && error.details.reason === 'EINVAL';
      if (!isUnknown) throw error;
      return zram.writeBackIdle(IDLE_MS, ended); // a kernel without page_index
    }
  }
}
