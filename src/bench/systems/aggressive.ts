import { setTimeout as sleep } from 'node:timers/promises';
import { fullScans } from './ksm.js';
import type { Part } from './part.js';
import type { Waiting } from './reclaimer.js';

/** A page is merged at the second scan that finds it unchanged; the first one may have begun before the wait. */
const SCANS = 3;
const MERGE_LIMIT_MS = 3000;
const POLL_MS = 50;

/**
 * Pages every sandbox out at the beginning of every wait, as AgentZip does, until the first token; what the tools need
 * then comes back by their faults.
 */
export class Aggressive implements Part {
  constructor(
    private readonly options: {
      /** Let KSM see what the tools wrote first: it does not look at pages that are out. */
      mergeFirst: boolean;
    } = { mergeFirst: false },
  ) {}

  waitBegan(sandbox: Waiting): void {
    if (this.options.mergeFirst) void mergeThenPageOut(sandbox);
    else void sandbox.pageOut();
  }

  notes(): string[] {
    return ['MADV_PAGEOUT of what the sandbox owns at every wait, until its first token; no prefetch'];
  }
}

async function mergeThenPageOut(sandbox: Waiting): Promise<void> {
  const enough = fullScans() + SCANS;
  const deadline = Date.now() + MERGE_LIMIT_MS;
  const lasts = sandbox.lasts();
  while (lasts && sandbox.lasts() && fullScans() < enough && Date.now() < deadline) await sleep(POLL_MS);
  if (sandbox.lasts()) await sandbox.pageOut();
}
