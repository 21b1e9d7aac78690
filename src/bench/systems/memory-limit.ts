import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const MIB = 2 ** 20;
/** A limit is lowered by at most this much at a time, so that the first token can end it. */
const STEP_BYTES = 4 * MIB;
/**
 * The kernel answers EBUSY when one round of reclaim frees nothing: it may have found every page in use, to look
 * again next time, or DAMON may have isolated pages for itself.
 */
const MOST_REFUSALS = 100;
const REFUSED_MS = 10;
const PAUSE = new Int32Array(new SharedArrayBuffer(4));
/** Below this a process can not run without throwing out what it runs on. */
const LEAST_BYTES = 8 * MIB;
/**
 * Documentation/admin-guide/sysctl/vm.rst: above 100 where swap is faster than the file system. 180 is what
 * distributions set for swap in memory.
 */
export const SWAPPINESS = 180;

const readNumber = (path: string): number => Number(readFileSync(path, 'utf8'));

/** Memory of a cgroup as the kernel charges it, in bytes. */
export interface Charged {
  /** What the limit counts: anonymous, file and kernel memory. */
  usage: number;
  /** Of it what can be swapped: anonymous and shared memory, and the swap cache. */
  swappable: number;
  swapped: number;
}

/** The limit of a sandbox's memory in its cgroup, version 1 (memory.limit_in_bytes) or 2 (memory.high). */
export class MemoryLimit {
  private readonly v1: boolean;
  private readonly path: string;

  constructor(private readonly cgroup: string) {
    this.v1 = existsSync(`${cgroup}/memory.limit_in_bytes`);
    this.path = `${cgroup}/${this.v1 ? 'memory.limit_in_bytes' : 'memory.high'}`;
  }

  /** Version 1 keeps the swappiness in the cgroup, and it goes with it; version 2 has only the host's. */
  preferSwap(): void {
    if (this.v1) writeFileSync(`${this.cgroup}/memory.swappiness`, String(SWAPPINESS));
  }

  charged(): Charged {
    const text = readFileSync(`${this.cgroup}/memory.stat`, 'utf8');
    const stat = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? '0');
    return {
      usage: readNumber(`${this.cgroup}/${this.v1 ? 'memory.usage_in_bytes' : 'memory.current'}`),
      swappable: stat('inactive_anon') + stat('active_anon'),
      swapped: this.v1 ? stat('swap') : readNumber(`${this.cgroup}/memory.swap.current`),
    };
  }

  /**
   * Lowers the limit until of all that can be swapped only `share` is in memory, beside the file and kernel memory that
   * is charged now. Blocks; the kernel reclaims what is above it while the limit is written, step by step. Before each,
   * `cancelled` is asked; then there is no limit in the end. Where the kernel finds nothing to reclaim it stays above.
   */
  lower(share: number, cancelled: () => boolean): void {
    const { usage, swappable, swapped } = this.charged();
    const target = Math.max(0, usage - swappable) + Math.max(LEAST_BYTES, share * (swappable + swapped));
    let reached = usage;
    let refused = 0;
    while (reached > target && refused < MOST_REFUSALS && !cancelled()) {
      const next = Math.max(target, reached - STEP_BYTES);
      if (this.write(String(Math.ceil(next)))) {
        reached = next;
        refused = 0;
      } else {
        refused++;
        Atomics.wait(PAUSE, 0, 0, REFUSED_MS);
      }
    }
    // Whoever cancelled has lifted the limit, but maybe before the last step.
    if (cancelled()) this.lift();
  }

  lift(): void {
    this.write(this.v1 ? '-1' : 'max');
  }

  /** False when the kernel can not reclaim enough (EBUSY), and the limit stays as it was. */
  private write(value: string): boolean {
    try {
      writeFileSync(this.path, value);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false;
      throw error;
    }
  }
}
