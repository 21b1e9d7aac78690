import { AgentZipError } from '../errors.js';
import { restore, rangesOfPages } from '../memory/restore.js';
import { PAGE } from '../native/libc.js';
import type { Context } from './context.js';
import type { Member } from './member.js';
import { placeBets } from './prefetch.js';
import type { Sandbox } from './sandbox.js';

const MIB = 1 << 20;
/** Pages that other work pages out again meanwhile are fetched again, this often. */
const RESTORE_PASSES = 8;

/** Pages put back, those meant and not put back, and the CPU time it took. */
export interface Restored {
  pages: number;
  left: number;
  cpuMs: number;
}
const NOTHING: Readonly<Restored> = { pages: 0, left: 0, cpuMs: 0 };

/** Puts pages of sandboxes back. */
export class Restorer {
  constructor(private readonly context: Context) {}

  /** Puts back what the next tool will probably use. */
  async prefetch(sandbox: Sandbox): Promise<Restored> {
    const { policy, info, turns, pollProbes } = this.context;
    sandbox.prefetched = true;
    if (!policy.prefetch.enabled) return NOTHING;
    pollProbes();
    const signal = sandbox.prefetchSignal;
    const processes = [...sandbox.members.values()].map((member) => {
      const look = member.lookAgain(info.swapType);
      return {
        process: member,
        candidates: look === null || look.swappedPages === 0 ? [] : member.usage.candidates(),
        isOut: (page: number) => member.isOut(page),
      };
    });
    const from = performance.now();
    const bets = placeBets(processes, (policy.prefetch.maxMiB * MIB) / PAGE);
    const total = { ...NOTHING };
    await turns.restore(async () => {
      for (const bet of bets) {
        const { pages, left, cpuMs } = await this.putBack(bet.process, bet.pages, signal);
        total.pages += pages;
        total.left += left;
        total.cpuMs += cpuMs;
      }
    });
    sandbox.lastPrefetchMs = performance.now() - from;
    sandbox.prefetchedPages += total.pages;
    return total;
  }

  /** Puts every page back. AZ_TIMEOUT when pages keep leaving. */
  async all(sandbox: Sandbox): Promise<void> {
    const { info, turns } = this.context;
    const never = new AbortController().signal;
    const started = Date.now();
    await turns.restore(async () => {
      for (let pass = 0; pass < RESTORE_PASSES; pass++) {
        let out = 0;
        for (const member of sandbox.members.values()) {
          const look = member.refresh({ flags: false, swapType: info.swapType });
          if (look === null || look.swappedPages === 0) continue;
          const pages: number[] = [];
          look.slots.forEach((page) => pages.push(page));
          out += pages.length;
          await this.putBack(member, pages, never);
        }
        if (out === 0) return;
      }
      throw new AgentZipError('AZ_TIMEOUT', {
        what: `paging sandbox ${sandbox.id} back in`,
        seconds: Math.round((Date.now() - started) / 1000),
        remedy: 'check that its memory limit holds all of it, then ask again',
      });
    });
  }

  private async putBack(member: Member, pages: readonly number[], signal: AbortSignal): Promise<Restored> {
    if (pages.length === 0 || signal.aborted) return { ...NOTHING, left: pages.length };
    const { slots } = member.look ?? {};
    if (slots !== undefined) {
      const expected = Uint32Array.from(pages, (page) => slots.get(page)).filter((slot) => slot !== 0);
      await this.context.pager.expect(expected);
    }
    const result = await restore(member, rangesOfPages(pages), { cancelled: () => signal.aborted });
    for (const page of pages.slice(0, result.pages)) member.usage.putBack(page);
    return { pages: result.pages, left: pages.length - result.pages, cpuMs: result.cpuMs };
  }
}
