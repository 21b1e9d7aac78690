import type { ControllerApi } from '../controller/api.js';

/** Lets one drain run at a time, and says so to those who would bring new work meanwhile. */
export class DrainGate {
  /** Resolves once a drain has succeeded. */
  readonly drained: Promise<void>;
  private succeed!: () => void;
  private running: Promise<void> | undefined;

  constructor(private readonly api: Pick<ControllerApi, 'drain'>) {
    this.drained = new Promise((resolve) => (this.succeed = resolve));
  }

  /** True from the start of a drain; false again after one that was refused. */
  get closed(): boolean {
    return this.running !== undefined;
  }

  /** Joins the drain in progress or starts one. Errors are the controller's, AZ_DRAIN_MEMORY above all. */
  drain(): Promise<void> {
    this.running ??= this.run();
    return this.running;
  }

  /** Waits for a drain in progress, however it ends. */
  async settled(): Promise<void> {
    await this.running?.catch(() => {});
  }

  private async run(): Promise<void> {
    try {
      await this.api.drain();
    } catch (error) {
      this.running = undefined;
      throw error;
    }
    this.succeed();
  }
}
