import { forEachPage, pagesOf, readAhead, rangesOfPages, type Range } from '../../memory/restore.js';
import { announcer } from './announce.js';
import type { Context } from '../context.js';
import { cameFirst } from '../faults/demand-faults.js';
import type { Member } from '../sandboxes/member.js';
import type { Predictor } from './predictor.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { Mark } from './usage.js';

/**
 * Runs ahead of tools: a page that a tool had to wait for tells which ones it will want next. They are read into the
 * swap cache and not mapped: it is quicker, and shows whether they were wanted.
 */
export class Forerunner {
  private readonly waiting = new Map<Member, { sandbox: Sandbox; pages: Set<number> }>();
  private running = false;

  constructor(
    private readonly context: Pick<Context, 'policies' | 'pager' | 'pollProbes' | 'waited'>,
    private readonly predictor: Predictor,
  ) {}

  /** A tool has waited for a page. */
  demanded(sandbox: Sandbox, member: Member, page: number): void {
    if (sandbox.paused || sandbox.window?.open === true) return;
    if (!this.context.policies.of(sandbox).prefetch.enabled) return;
    const next = this.predictor.follow(sandbox, member, page).slice(0, sandbox.prefetchRoom);
    if (next.length === 0) return;
    let entry = this.waiting.get(member);
    if (entry === undefined) this.waiting.set(member, (entry = { sandbox, pages: new Set() }));
    for (const near of next) {
      member.usage.ask(near);
      entry.pages.add(near);
    }
    sandbox.prefetchRoom -= next.length;
  }

  /** Reads what has been asked for, in the order of the faults; returns at once. */
  go(): void {
    if (this.running || this.waiting.size === 0) return;
    this.running = true;
    // A bet on speed: when it fails, the pages come back on demand.
    this.readAll()
      .catch(() => {})
      .finally(() => (this.running = false));
  }

  private async readAll(): Promise<void> {
    for (let next = this.take(); next !== null; next = this.take()) {
      const { member, sandbox, pages } = next;
      const signal = sandbox.prefetchSignal;
      const restored = (vector: readonly Range[]): void => {
        // First what the tool had to wait for.
        this.context.pollProbes();
        if (signal.aborted) return;
        cameFirst(sandbox, member, pagesOf(vector), this.context.waited);
        forEachPage(vector, (page) => {
          member.usage.putBack(page, Mark.READY | Mark.AHEAD);
          sandbox.prefetchedPages++;
        });
      };
      const announce = announcer(this.context.pager, member);
      const cancelled = (): boolean => signal.aborted;
      await readAhead(member.pidfd, rangesOfPages(pages), { cancelled, announce, restored });
    }
  }

  private take(): { member: Member; sandbox: Sandbox; pages: number[] } | null {
    const [first] = this.waiting;
    if (first === undefined) return null;
    const [member, { sandbox, pages }] = first;
    this.waiting.delete(member);
    return { member, sandbox, pages: [...pages] };
  }
}
