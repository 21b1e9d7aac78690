import { parentPort, workerData } from 'node:worker_threads';
import { explain } from '../../errors.js';
import { cgroupPids } from '../../memory/cgroup.js';
import { lookAt } from '../../memory/look.js';
import { pageOut } from '../../memory/pageout.js';
import { identify } from '../../memory/process.js';
import { SystemError } from '../../native/errno.js';
import { close } from '../../native/files.js';
import { pidfdOpen, processMadviseHere, threadCpuMs } from '../../native/process.js';
import { mergedMapped, mergedSole } from './ksm-pages.js';
import { MemoryLimit } from './memory-limit.js';
import type { Job, JobResult, ReclaimWorkerData } from './reclaimer.js';

/** The call holds the target's mmap_lock, and the first token waits for the one in progress. */
const VECTOR_BYTES = 1 << 20;
/** Pages in use or on their way to a list of the kernel are passed over at first. AgentZip's default too. */
const RETRIES = 2;
/** No swap type: where the pages that are out are does not matter here. */
const NO_SWAP_TYPE = -1;

const { waits, cpu } = workerData as ReclaimWorkerData;
const wanted = new Int32Array(waits);
const cpuMs = new Float64Array(cpu);

/** Adds what this thread works to the system's processor time; counting merged pages is measuring, and not its work. */
class WorkClock {
  private last = threadCpuMs();

  lap(): true {
    const now = threadCpuMs();
    cpuMs[0] += now - this.last;
    this.last = now;
    return true;
  }
}

const waitEnded = ({ place, wait }: { place: number; wait: number }): boolean =>
  Atomics.load(wanted, place) !== wait;

/** Pages out what the processes of a cgroup own, as long as the wait lasts. Resolves to the pages it went over. */
async function pageOutAll(cgroup: string, cancelled: () => boolean): Promise<number> {
  let pages = 0;
  for (let pass = 0; pass <= RETRIES; pass++) {
    let owned = 0;
    for (const pid of cgroupPids(cgroup)) {
      if (cancelled()) return pages;
      owned += await pageOutProcess(pid, cancelled);
    }
    pages += owned;
    if (owned === 0) break;
  }
  return pages;
}

async function pageOutProcess(pid: number, cancelled: () => boolean): Promise<number> {
  const process = identify(pid);
  const look = process && lookAt(process, { flags: true, swapType: NO_SWAP_TYPE });
  if (!look) return 0;
  let pidfd: number;
  try {
    pidfd = pidfdOpen(pid);
  } catch (error) {
    if (error instanceof SystemError && error.code === 'ESRCH') return 0;
    throw error;
  }
  try {
    await pageOut(pidfd, look.owned, { vectorBytes: VECTOR_BYTES, cancelled, advise: processMadviseHere });
  } finally {
    close(pidfd);
  }
  return look.ownedPages;
}

async function perform(job: Job): Promise<number> {
  switch (job.op) {
    case 'pageOut': {
      const clock = new WorkClock();
      return pageOutAll(job.cgroup, () => clock.lap() && waitEnded(job)).finally(() => clock.lap());
    }
    case 'limit': {
      const clock = new WorkClock();
      const limit = new MemoryLimit(job.cgroup);
      limit.preferSwap();
      try {
        limit.lower(job.share, () => clock.lap() && waitEnded(job));
        return 0;
      } finally {
        clock.lap();
      }
    }
    case 'soleKsm':
      return mergedSole(job.cgroups.flatMap(cgroupPids));
    case 'mappedKsm':
      return mergedMapped(job.pids);
  }
}

async function answer(id: number, job: Job): Promise<JobResult> {
  try {
    return { id, value: await perform(job) };
  } catch (error) {
    // The cgroup of a sandbox that has ended is gone.
    if (['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code ?? '')) return { id, value: 0 };
    return { id, error: explain(error) };
  }
}

let last: Promise<void> = Promise.resolve();
parentPort?.on('message', ({ id, job }: { id: number; job: Job }) => {
  last = last.then(async () => parentPort?.postMessage(await answer(id, job)));
});
