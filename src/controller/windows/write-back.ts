import { AgentZipError } from '../../errors.js';
import { Zram } from '../../memory/zram.js';
import { BlockClaims } from '../claims/block-claims.js';
import { lookFirst } from '../claims/claims.js';
import type { Context } from '../context.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { settled } from './settle.js';
import type { WindowJob } from './window-job.js';

const PAGES_A_MIB = 256;
/** What nobody touches for so long is written back, where single pages can not be named. */
const IDLE_MS = 1_000;
/** Pages written back before they are claimed: refinement begins with the first while others are written. */
const CHUNK_PAGES = 512;

/** With zram before the pager's device: sends what a waiting sandbox has out from zram's memory down to it, and claims it there. */
export class WriteBack {
  /** Null: nothing was written back yet. */
  private claims: BlockClaims | null = null;
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

  /** The sandbox is gone. */
  forget(sandbox: Sandbox): void {
    this.claims?.forget(sandbox);
  }

  /** Lets go of what is mapped, once nothing is written any more, and of what is known of the device. */
  close(): void {
    this.claims?.close();
    this.claims = null;
  }

  private async write(job: WindowJob): Promise<number> {
    const { info, policy } = this.context;
    if (!job.window.open) return 0;
    const zram = new Zram(info.device);
    await zram.limit(policy.pager.writebackMiB * PAGES_A_MIB);
    const claims = (this.claims ??= new BlockClaims(this.context));
    await claims.begin();
    try {
      return await this.inChunks(zram, claims, job);
    } catch (error) {
      const isUnknown = error instanceof AgentZipError && error.details.reason === 'EINVAL';
      if (!isUnknown) throw error;
      return zram.writeBackIdle(IDLE_MS, () => !job.window.open); // a kernel without page_index
    }
  }

  private async inChunks(zram: Zram, claims: BlockClaims, { sandbox, window }: WindowJob): Promise<number> {
    const first = lookFirst(this.context, sandbox);
    const slots: number[] = [];
    for (const look of first.values()) look.slots.forEach((_page, slot) => slots.push(slot));
    const areSettled = await settled(this.context.info.device, window.signal);
    let written = 0;
    for (let at = 0; at < slots.length && window.open; at += CHUNK_PAGES) {
      const chunk = slots.slice(at, at + CHUNK_PAGES);
      written += await zram.writeBack(
        chunk,
        () => !window.open,
        (slot) => claims.answered(slot),
      );
      if (areSettled) await claims.claim(sandbox, first, window.signal);
    }
    if (window.open) await claims.free(sandbox);
    return written;
  }
}
