import { close } from '../native/files.js';
import { SystemError } from '../native/errno.js';
import { PAGE } from '../native/libc.js';
import { pidfdOpen } from '../native/process.js';
import { lookAt, type Look, type LookOptions } from '../memory/look.js';
import { byteTable, wordTable, type PageTable } from '../memory/page-table.js';
import { identify, isAlive, type ProcessId } from '../memory/process.js';
import { Usage, type PhaseCounts } from './usage.js';

/** One process of a sandbox, and what the ledger knows of its pages. */
export class Member {
  /** The last look taken to act on; null before the first window. */
  look: Look | null = null;
  /** Page → slot that the pager has accepted as this sandbox's in the window that is open. */
  readonly claimed = wordTable();

  private constructor(
    readonly process: ProcessId,
    readonly pidfd: number,
    readonly usage: Usage,
  ) {}

  /** The process behind a pid now, or null when there is none. `phases`: see {@link Usage}. */
  static adopt(pid: number, phases: number): Member | null {
    const found = identify(pid);
    if (found === null) return null;
    try {
      const member = new Member(found, pidfdOpen(pid), new Usage(phases));
      if (isAlive(found)) return member;
      member.close();
      return null;
    } catch (error) {
      if (error instanceof SystemError && (error.code === 'ESRCH' || error.code === 'EINVAL')) return null;
      throw error;
    }
  }

  get pid(): number {
    return this.process.pid;
  }

  /** Looks without remembering. Null: the process is gone. */
  peek(swapType: number): Look | null {
    return lookAt(this.process, { flags: false, swapType, known: this.look?.vmas });
  }

  /** Looks, and remembers it. The first look of a window reads the VMA flags; later ones build on it. */
  refresh(options: Omit<LookOptions, 'known'>): Look | null {
    return (this.look = lookAt(this.process, { ...options, known: this.look?.vmas }));
  }

  /** Is the page out, as far as the last look and the faults since then tell? */
  isOut(page: number): boolean {
    return this.look !== null && this.look.slots.get(page) !== 0;
  }

  /** Ends the tool phase since the last look: compares it with a new one, which it remembers. */
  endPhase(swapType: number): PhaseCounts {
    const before = this.look;
    const now = this.refresh({ flags: true, swapType });
    if (before === null || now === null) return { demand: 0, used: 0, wasted: 0 };
    const owned = pagesOf(now);
    const resident = pagesOf(before);
    const out: number[] = [];
    before.slots.forEach((page) => out.push(page));
    const fresh: number[] = [];
    owned.forEach((page) => {
      if (resident.get(page) === 0 && before.slots.get(page) === 0) fresh.push(page);
    });
    return this.usage.endPhase(
      out,
      (page) => (now.slots.get(page) !== 0 ? 'out' : owned.get(page) !== 0 ? 'present' : 'unmapped'),
      fresh,
    );
  }

  /** exec: all of the address space is gone. */
  replaced(): void {
    this.look = null;
    this.claimed.clear();
    this.usage.clear();
  }

  close(): void {
    close(this.pidfd);
  }
}

function pagesOf(look: Look): PageTable<Uint8Array> {
  const pages = byteTable();
  for (const { address, length } of look.owned) {
    for (let page = address / PAGE; page < (address + length) / PAGE; page++) pages.set(page, 1);
  }
  return pages;
}
