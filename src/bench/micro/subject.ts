import { AgentZipError } from '../../errors.js';
import { Pagemap, isSwapped } from '../../memory/pagemap.js';
import { identify, type ProcessId } from '../../memory/process.js';
import { PAGE } from '../../native/libc.js';
import type { Range } from '../../native/process.js';
import type { SandboxCgroups } from '../cgroups.js';
import { failed } from '../lines.js';
import { ONE_THREAD, pythonCommand } from '../python.js';
import type { Sandbox } from '../sandbox.js';
import { quantile } from '../stats.js';
import type { Template } from '../template.js';
import type { TemplatePlan } from '../workload.js';

const TEMPLATE = { id: 'micro', tenant: 'micro' };

/** The template of the subjects: programs/subject.py with a region of `pages` pages. */
export const subjectTemplate = (pages: number, seed: number): TemplatePlan => ({
  ...TEMPLATE,
  launch: 'fork',
  command: pythonCommand('subject', String(pages), String(seed)),
  env: { ...ONE_THREAD, PYTHONHASHSEED: '0' },
});

/** Pages of a region by where they are. `cached`: out by the page table, and in the swap cache still. */
export interface Places {
  present: number;
  cached: number;
  out: number;
}

export interface Faults {
  /** Microseconds of each fault, without what timing a read takes. */
  us: number[];
  /** What timing the read of a mapped page takes; taken off each. */
  timingUs: number;
  /** Pages passed over because they were in the swap cache when their turn came. */
  passed: number;
}

/** A process forked from the template whose region of memory goes out and comes back. */
export class Subject {
  private constructor(
    private readonly sandbox: Sandbox,
    private readonly cgroups: SandboxCgroups,
    readonly process: ProcessId,
    private readonly seed: number,
    private region: Range = { address: 0, length: 0 },
    private digest = '',
  ) {}

  /** Forks it and changes its region: same seed, same bytes. AZ_WORKLOAD_FAILED when it does not start. */
  static async make(template: Template, cgroups: SandboxCgroups, id: string, seed: number): Promise<Subject> {
    const sandbox = await template.make(id, cgroups.add(id));
    const process = identify(sandbox.pid);
    if (process === null) throw failed(`${id} ended at once`);
    const subject = new Subject(sandbox, cgroups, process, seed);
    await subject.change(seed);
    return subject;
  }

  get id(): string {
    return this.sandbox.id;
  }

  get pid(): number {
    return this.process.pid;
  }

  get cgroup(): string {
    return this.sandbox.cgroup;
  }

  get range(): Range {
    return this.region;
  }

  get pages(): number {
    return this.region.length / PAGE;
  }

  /** Changes words of every page, so that each must be written again when it goes out. */
  async change(seed: number): Promise<void> {
    interface Changed {
      address: number;
      pages: number;
      digest: string;
    }
    const { address, pages, digest } = await this.call<Changed>('change', { seed });
    this.region = { address, length: pages * PAGE };
    this.digest = digest;
  }

  /** Pages that are out by the page table, in the swap cache or not. Costs the subject nothing. */
  swapped(): number {
    const pagemap = Pagemap.open(this.process);
    if (pagemap === null) throw failed(`${this.id} ended`);
    let count = 0;
    const { address, length } = this.region;
    try {
      pagemap.scan(address, address + length, (_address, _low, high) => {
        if (isSwapped(high)) count++;
      });
    } finally {
      pagemap.close();
    }
    return count;
  }

  places(): Promise<Places> {
    return this.call<Places>('state');
  }

  /** Runs of pages that are out by the page table and still take memory. */
  async cached(): Promise<Range[]> {
    const runs = await this.call<[first: number, pages: number][]>('cached');
    return runs.map(([first, pages]) => ({
      address: this.region.address + first * PAGE,
      length: pages * PAGE,
    }));
  }

  /** Faults on `count` random pages that are really out; fewer when there are not so many. */
  async faults(seed: number, count: number): Promise<Faults> {
    interface Timed {
      ns: number[];
      timing: number[];
      passed: number;
    }
    const { ns, timing, passed } = await this.call<Timed>('faults', { seed, count });
    if (ns.length === 0) throw failed(`no page of ${this.id} was out`);
    const timingUs = quantile(timing, 0.5) / 1000;
    return { us: ns.map((each) => Math.max(0, each / 1000 - timingUs)), timingUs, passed };
  }

  /** Seconds to read one byte of every page, in order. */
  async sequential(): Promise<number> {
    const { ns } = await this.call<{ ns: number }>('sequential');
    return ns / 1e9;
  }

  /** Compares every byte of the region with what was there before it went out. AZ_RESULTS_DIFFER. */
  async verify(): Promise<void> {
    if ((await this.call<string>('digest')) === this.digest) return;
    throw new AgentZipError('AZ_RESULTS_DIFFER', {
      what: `the memory of ${this.id} is not what was paged out`,
      seed: this.seed,
    });
  }

  async end(): Promise<void> {
    await this.sandbox.end();
    await this.cgroups.remove(this.id);
  }

  private async call<T>(tool: string, args: Record<string, unknown> = {}): Promise<T> {
    return JSON.parse(await this.sandbox.call({ tool, args })) as T;
  }
}
