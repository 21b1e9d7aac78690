import { mkdirSync } from 'node:fs';
import { Program } from './program.js';
import { type Reception, Sandbox } from './sandbox.js';
import type { TemplatePlan } from './workload.js';

/** A running, warmed template, and where its sandboxes come from. */
export class Template {
  /** Programs that are to become sandboxes, or have: launch fresh only. */
  private readonly fresh: Program[] = [];

  private constructor(
    private readonly plan: TemplatePlan,
    private readonly program: Program,
    private readonly folder: string,
    private readonly reception: Reception,
    private readonly launcher: readonly string[],
  ) {}

  /**
   * `folder` takes the homes of its programs and the folders of its sandboxes; for `launcher` see System. Errors are
   * those of Program.start.
   */
  static async start(
    plan: TemplatePlan,
    folder: string,
    reception: Reception,
    launcher: readonly string[] = [],
  ): Promise<Template> {
    const program = await Program.start(plan, `${folder}/${plan.id}`, { launcher });
    return new Template(plan, program, folder, reception, launcher);
  }

  get id(): string {
    return this.plan.id;
  }

  get tenant(): string {
    return this.plan.tenant;
  }

  get pid(): number {
    return this.program.pid;
  }

  get memoryFile(): string | undefined {
    return this.program.memoryFile;
  }

  /** Makes a sandbox in the cgroup at `cgroup` (absolute path). AZ_WORKLOAD_FAILED when it does not start. */
  async make(id: string, cgroup: string): Promise<Sandbox> {
    const folder = `${this.folder}/sandboxes/${id}`;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const order = { socket: this.reception.path, procs: `${cgroup}/cgroup.procs`, folder };
    const fresh = this.plan.launch === 'fresh' ? await this.startFresh(order.procs) : undefined;
    // Only now: warming up has its own, longer time.
    const arrival = this.reception.expect(id);
    if (fresh === undefined) await this.program.fork(id, order);
    else fresh.become(id, order);
    const { socket, lines, pid } = await arrival;
    return new Sandbox(id, pid, cgroup, folder, socket, lines);
  }

  private async startFresh(procs: string): Promise<Program> {
    const home = `${this.folder}/${this.plan.id}`;
    const program = await Program.start(this.plan, home, { launcher: this.launcher, procs });
    this.fresh.push(program);
    return program;
  }

  async end(): Promise<void> {
    await Promise.all([this.program, ...this.fresh].map((program) => program.end()));
  }
}
