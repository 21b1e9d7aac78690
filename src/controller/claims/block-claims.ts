import type { Look } from '../../memory/look.js';
import { byteTable } from '../../memory/page-table.js';
import { ZramReader } from '../../memory/zram-reader.js';
import type { DemandReads, DeviceLogs } from '../../pager/protocol.js';
import type { Context } from '../context.js';
import type { Member } from '../sandboxes/member.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { BlockTable } from './block-table.js';
import { claimPages, othersShow, type Looks } from './claims.js';

/** Fewer than the log of reads has records, with room for what tools read meanwhile. */
const PROOF_PAGES = 4096;

interface Candidates {
  pages: number[];
  slots: number[];
}

/**
 * Claims pages that zram has written back, by the block of the pager's device that it chose for each.
 *
 * Where a page was put, the log of the device's writes told: zram was asked for one slot at a time, and one block was written
 * meanwhile. That is only a guess, for somebody else may have zram write back as well. A claim rests on this proof: the page's
 * process shows the slot, after its block was written and as it had before its page's first write had settled; then the slot is
 * read through zram, and the device has that very block read. A slot that is freed loses its block at once, so from the write to this
 * read the slot was never free, was this page's, and the block holds this page.
 *
 * A block that fails any of this stays nobody's, which costs memory and never a secret.
 */
export class BlockClaims {
  private readonly table: BlockTable;
  private logs: DeviceLogs | null = null;
  /** Takeovers seen when the logs were opened. */
  private takeovers = -1;

  /** `read`: has zram read these slots, which are ascending. False: some it could not. */
  constructor(
    private readonly context: Context,
    private readonly read: (slots: readonly number[]) => Promise<boolean> = throughZram(context.info.device),
  ) {
    this.table = new BlockTable(context.info.slots);
  }

  /** Before zram is asked to write back. What was written since the last time, was so at the wish of somebody else. */
  async begin(): Promise<void> {
    const { pager } = this.context;
    if (this.takeovers !== pager.takeovers) {
      this.close();
      this.takeovers = pager.takeovers;
      this.logs = await pager.deviceLogs();
    }
    this.strange();
  }

  /** zram has answered to the wish that it write this slot's page back. */
  answered(slot: number): void {
    const blocks = this.written();
    if (blocks.length > 1) this.table.clear();
    this.table.wrote(slot, blocks);
  }

  /** What was written, it is not known for which slot. */
  strange(): boolean {
    const found = this.written().length > 0;
    if (found) this.table.clear(); // somebody else has zram write back: nothing is certain any more
    return found;
  }

  /** Claims what can be proven to be the sandbox's. `first`: looks before the page-outs' writes had settled. */
  async claim(sandbox: Sandbox, first: Looks, signal: AbortSignal): Promise<void> {
    const { pager, info } = this.context;
    if (this.logs === null) return;
    const { sequence } = await pager.request('sequence', {});
    for (const [member, look] of first) {
      const second = signal.aborted ? null : member.lookBack(info.swapType);
      if (second === null) continue;
      const { pages, slots } = await this.prove(this.candidates(sandbox, look, second), signal);
      const blocks = slots.map((slot) => this.table.blockOf(slot));
      await this.tell(sandbox, member, second, { pages, blocks, sequence }, signal);
    }
  }

  /**
   * Frees blocks of the sandbox that zram has let go of, which it does not tell: those that it does not read for the slot they were
   * written for. Only zram could put another page there, by a write that the pager would know of.
   */
  async free(sandbox: Sandbox): Promise<void> {
    const { pager } = this.context;
    const shown = byteTable();
    for (const { look } of sandbox.members.values()) look?.slots.forEach((_page, slot) => shown.set(slot, 1));
    const suspects = this.table.unshown(sandbox.tag, (slot) => shown.get(slot) !== 0);
    if (this.logs === null || suspects.length === 0) return;
    const blocks = Uint32Array.from(suspects, ({ block }) => block);
    // From now on the pager notes which are read.
    const sequence = await pager.watch(sandbox.id, blocks, true);
    const complete = await this.read(ascending(suspects.map(({ slot }) => slot)));
    if (!complete || this.strange()) return;
    await pager.free(sandbox.id, sequence, blocks, true);
  }

  forget(sandbox: Sandbox): void {
    this.table.forget(sandbox.tag);
  }

  close(): void {
    this.logs?.reads.close();
    this.logs?.writes.close();
    this.logs = null;
    this.table.clear();
  }

  /** Pages whose slot both looks show, with a block that is not claimed. */
  private candidates(sandbox: Sandbox, first: Look, second: Look): Candidates {
    const { owners } = this.context;
    const shows = othersShow(this.context);
    const found: Candidates = { pages: [], slots: [] };
    second.slots.forEach((page, slot) => {
      const block = this.table.blockOf(slot);
      if (block === 0 || found.pages.length === PROOF_PAGES || this.table.isClaimed(block, sandbox.tag))
        return;
      if (first.slots.get(page) !== slot || !owners.take(slot, sandbox.tag, page, shows)) return;
      found.pages.push(page);
      found.slots.push(slot);
    });
    return found;
  }

  /** Those that zram reads from the block where they were put. */
  private async prove({ pages, slots }: Candidates, signal: AbortSignal): Promise<Candidates> {
    const proven: Candidates = { pages: [], slots: [] };
    if (this.logs === null || slots.length === 0 || signal.aborted) return proven;
    const { reads } = this.logs;
    drained(reads);
    await this.read(ascending(slots));
    const read = new Set(drained(reads));
    // A block that somebody else had written meanwhile may have been read for another slot.
    if (this.strange()) return proven;
    slots.forEach((slot, i) => {
      const block = this.table.blockOf(slot);
      if (!read.has(block)) return this.table.left(slot, block);
      proven.pages.push(pages[i]);
      proven.slots.push(slot);
    });
    return proven;
  }

  private async tell(
    sandbox: Sandbox,
    member: Member,
    look: Look,
    { pages, blocks, sequence }: { pages: number[]; blocks: number[]; sequence: number },
    signal: AbortSignal,
  ): Promise<void> {
    const claim = { pages, slots: blocks, sequence, blocks: true };
    await claimPages(this.context, sandbox, member, look, claim, signal, (i) =>
      this.table.claim(blocks[i], sandbox.tag),
    );
  }

  /** Blocks written since it was last asked. Of some it may not have been told: then nothing is known of any. */
  private written(): number[] {
    if (this.logs === null) return [];
    const { writes } = this.logs;
    const lost = writes.lost;
    const blocks = drained(writes);
    if (writes.lost === lost) return blocks;
    this.table.clear();
    return [];
  }
}

const ascending = (slots: readonly number[]): number[] => [...slots].sort((a, b) => a - b);

/** Open only while it reads: the device can not be taken away meanwhile. */
const throughZram = (device: string) => async (slots: readonly number[]) => {
  const reader = await ZramReader.open(device);
  try {
    return await reader.read(slots);
  } finally {
    await reader.close();
  }
};

function drained(log: DemandReads): number[] {
  const blocks: number[] = [];
  log.drain((block) => blocks.push(block));
  return blocks;
}
