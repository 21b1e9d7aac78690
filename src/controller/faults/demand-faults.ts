import { mappedPages } from '../../memory/mapped.js';
import type { DemandReads } from '../../pager/protocol.js';
import type { Member } from '../sandboxes/member.js';
import type { Registry } from '../sandboxes/registry.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import type { SlotOwners } from '../claims/slot-owners.js';
import { isDemand, Mark } from '../prefetch/usage.js';

/**
 * A page that was read and is not mapped so long afterwards was read ahead by the kernel, around one that was asked for. A
 * fault whose read is still under way takes a fraction of that.
 */
const FAULT_MS = 20;
/** Pages that wait to be mapped; of more only the page table tells, after the phase. */
const MOST_WAITING = 8192;

/** Told of a page that a tool had to wait for. */
export type OnDemand = (sandbox: Sandbox, member: Member, page: number) => void;

/** Of pages that are being put back, those that a tool has mapped before us: it waited for them. */
export function cameFirst(sandbox: Sandbox, member: Member, pages: readonly number[], found: OnDemand): void {
  const open = pages.filter((page) => !member.usage.isUsed(page));
  const mapped = open.length === 0 ? null : mappedPages(member.process, open);
  if (mapped !== null) for (const page of open) if (mapped.has(page)) found(sandbox, member, page);
}

interface Read {
  page: number;
  at: number;
}

/**
 * Finds demand faults in what the pager reads. A slot that was read without announcement was asked for by a fault, or lies
 * near one that was, for the kernel reads ahead (vm.page-cluster). The page table tells them apart: a fault maps its page.
 */
export class DemandFaults {
  private readonly waiting = new Map<Member, { sandbox: Sandbox; reads: Read[] }>();
  private count = 0;
  /** All that is read is passed over: the device is being drained. */
  muted = false;

  constructor(
    /** Null: there are none, or not now. */
    private reads: DemandReads | null,
    private readonly registry: Registry,
    private readonly owners: SlotOwners,
  ) {}

  get able(): boolean {
    return this.reads !== null;
  }

  /** Reads that could not be told of in time. */
  get lost(): number {
    return this.reads?.lost ?? 0;
  }

  /** Another pager has taken over. */
  follow(reads: DemandReads | null): void {
    this.reads?.close();
    this.reads = reads;
  }

  /** Takes what was read so far. True: of some pages it can not be said yet. */
  poll(found: OnDemand): boolean {
    this.reads?.drain((slot) => {
      if (!this.muted) this.read(slot);
    });
    if (this.count > 0) this.settle(found);
    return this.count > 0;
  }

  /** Which pages of which processes had the slot when they were last looked at? Of a slot that was forked, all. */
  private read(slot: number): void {
    const sandbox = this.registry.tagged(this.owners.tagOf(slot));
    if (sandbox === undefined || this.count >= MOST_WAITING) return;
    const page = this.owners.pageOf(slot);
    for (const member of sandbox.members.values()) {
      if (member.look?.slots.get(page) !== slot) continue;
      // What was put back and has gone again says nothing of tools.
      if (member.usage.isUsed(page) || !isDemand(member.usage.mark(page))) continue;
      let entry = this.waiting.get(member);
      if (entry === undefined) this.waiting.set(member, (entry = { sandbox, reads: [] }));
      entry.reads.push({ page, at: performance.now() });
      this.count++;
    }
  }

  private settle(found: OnDemand): void {
    const before = performance.now() - FAULT_MS;
    this.count = 0;
    for (const [member, entry] of this.waiting) {
      const mapped = mappedPages(
        member.process,
        entry.reads.map(({ page }) => page),
      );
      const left: Read[] = [];
      for (const read of mapped === null ? [] : entry.reads) {
        const { page } = read;
        // exec has replaced it; or we have mapped it ourselves meanwhile.
        if (!member.isOut(page) || (member.usage.mark(page) & Mark.MAPPED) !== 0) continue;
        if (mapped!.has(page)) found(entry.sandbox, member, page);
        else if (read.at > before) left.push(read);
      }
      entry.reads = left;
      this.count += left.length;
      if (left.length === 0) this.waiting.delete(member);
    }
  }

  close(): void {
    this.follow(null);
    this.waiting.clear();
    this.count = 0;
  }
}
