import { existsSync } from 'node:fs';
import type { HostChanges } from './host-changes.js';
import { MemoryLimit, SWAPPINESS } from './memory-limit.js';
import type { Part } from './part.js';
import type { Waiting } from './reclaimer.js';

/** What of a sandbox's memory stays, by default of the kernel's choosing. */
const SHARE = 0.5;

/**
 * Leaves the choice of pages to the kernel: a memory limit on each sandbox's cgroup for as long as it waits, of half of
 * what it then has in memory and out, as a host does that plans with twice its memory and is told nothing of the
 * future. The first token lifts it. A limit that stands while tools run is no use as a peer: they thrash, and the OOM
 * killer of cgroup v1 ended sandboxes whose tools grew (seen on 6.18 in the demo's second turn).
 */
export class Pressure implements Part {
  async start(changes: HostChanges): Promise<void> {
    // Cgroups of version 1 have a swappiness of their own, see MemoryLimit.
    if (!existsSync('/sys/fs/cgroup/memory'))
      await changes.setKnob('/proc/sys/vm/swappiness', String(SWAPPINESS));
  }

  waitBegan(sandbox: Waiting): void {
    void sandbox.limit(SHARE);
  }

  waitEnded(sandbox: Waiting): void {
    new MemoryLimit(sandbox.cgroup).lift();
  }

  notes(): string[] {
    return [
      `memory limit of a waiting sandbox's cgroup: ${SHARE * 100} % of its anonymous memory, in and out (8 MiB at ` +
        `least), beside its file and kernel memory; swappiness ${SWAPPINESS}; the first token lifts it`,
    ];
  }
}
