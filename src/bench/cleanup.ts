import { AgentZipError, explain } from '../errors.js';

/** What has to be undone, in the reverse order of doing it, whatever happens in between. */
export class Cleanup {
  private readonly steps: { what: string; undo: () => Promise<void> | void }[] = [];
  private running: Promise<void> | undefined;

  defer(what: string, undo: () => Promise<void> | void): void {
    this.steps.push({ what, undo });
  }

  /**
   * Undoes every step, also when one fails, and once only: a second call waits for the first.
   * AZ_HOST_NOT_CLEAN names the steps that failed.
   */
  run(): Promise<void> {
    return (this.running ??= this.undoAll());
  }

  private async undoAll(): Promise<void> {
    const failures: string[] = [];
    for (let step = this.steps.pop(); step !== undefined; step = this.steps.pop()) {
      try {
        await step.undo();
      } catch (error) {
        failures.push(`${step.what} (${explain(error)})`);
      }
    }
    if (failures.length > 0) {
      throw new AgentZipError('AZ_HOST_NOT_CLEAN', {
        what: failures.join('; '),
        remedy: 'remove it by hand, then run the demo again',
      });
    }
  }
}
