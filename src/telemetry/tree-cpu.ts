import { processCpuNs } from '../native/process.js';

const NS_PER_MS = 1e6;

/** CPU time that the processes of a sandbox have used since it was first asked, ended ones too as far as it saw them. */
export class TreeCpu {
  private readonly known = new Map<number, number>();
  private totalNs = 0;
  private begun = false;

  /** One system call for each of `pids`, its processes now. */
  ms(pids: Iterable<number>): number {
    const living = new Set<number>();
    for (const pid of pids) {
      const now = processCpuNs(pid);
      if (now === null) continue;
      living.add(pid);
      const before = this.known.get(pid) ?? (this.begun ? 0 : now);
      // Less than before: another process has the pid now.
      this.totalNs += now >= before ? now - before : now;
      this.known.set(pid, now);
    }
    for (const pid of this.known.keys()) if (!living.has(pid)) this.known.delete(pid);
    this.begun = true;
    return this.totalNs / NS_PER_MS;
  }
}
