import { AgentZipError } from '../../errors.js';
import { cgroupPids } from '../../memory/cgroup.js';
import { CgroupReclaim, type ReclaimResult } from '../../memory/cgroup-reclaim.js';
import { PAGE } from '../../native/libc.js';
import { ATTRIBUTES } from '../../otel/names.js';
import type { Context } from '../context.js';
import { claimantOf, type WindowJob } from './window-job.js';

/**
 * Sends out the memory that a waiting sandbox's processes map together, through its cgroup. Nobody claims those pages, for no
 * page table names their slots: the store compresses each by itself and shares none, so that no trust domain is crossed.
 */
export class SharedPageOut {
  private readonly reclaim = new CgroupReclaim();

  constructor(private readonly context: Context) {}

  /** Returns how many pages went; 0 where no cgroup is to be told. AZ_RECLAIM. */
  async all(job: WindowJob): Promise<number> {
    const { sandbox, window, span } = job;
    const folder = sandbox.reclaimCgroup;
    if (folder === null || !window.open) return 0;
    this.refuseStrangers(job, folder);
    const child = span.child('pageout');
    let result: ReclaimResult = { bytes: 0, steps: 0, leftBytes: 0, cpuMs: 0 };
    try {
      await this.context.turns.pageOut(claimantOf(job), async (turn) => {
        child.addEvent('turn');
        const from = performance.now();
        const stepBytes = this.context.policies.of(sandbox).pageout.vectorKiB * 1024;
        result = await this.reclaim.all(folder, { stepBytes, turn, cancelled: () => !window.open });
        window.worked();
        sandbox.lastPageoutMs = (sandbox.lastPageoutMs ?? 0) + performance.now() - from;
      });
    } finally {
      child.setAttributes({
        [ATTRIBUTES.pages]: result.bytes / PAGE,
        [ATTRIBUTES.bytesIn]: result.bytes,
        [ATTRIBUTES.pagesLeft]: result.leftBytes / PAGE,
        [ATTRIBUTES.cpuMs]: result.cpuMs,
      });
      child.end();
    }
    return result.bytes / PAGE;
  }

  /** A cgroup is told for all that is in it. */
  private refuseStrangers({ sandbox }: WindowJob, folder: string): void {
    this.context.registry.refresh(sandbox);
    const strangers = cgroupPids(folder).filter((pid) => !sandbox.members.has(pid));
    if (strangers.length === 0) return;
    const reason = `it holds processes of others: ${strangers.slice(0, 4).join(', ')}`;
    throw new AgentZipError('AZ_RECLAIM', { cgroup: folder, reason });
  }
}
