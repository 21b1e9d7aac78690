import type { FoundSandbox, HostAdapter, HostListener } from '../../src/hosts/adapter.js';

/** A platform whose sandboxes a test names. */
export class ScriptedAdapter implements HostAdapter {
  found: FoundSandbox[] = [];
  /** What the next looks end with, in place of what is found. */
  trouble: Error | Promise<never> | null = null;
  looks = 0;
  follows = 0;
  listener: HostListener | null = null;

  constructor(readonly name: string) {}

  async find(): Promise<FoundSandbox[]> {
    this.looks++;
    if (this.trouble instanceof Error) throw this.trouble;
    if (this.trouble !== null) return this.trouble;
    return this.found.map((sandbox) => ({ ...sandbox }));
  }

  follow(listener: HostListener): () => void {
    this.follows++;
    this.listener = listener;
    return () => {
      if (this.listener === listener) this.listener = null;
    };
  }

  /** As the platform shows it unless `more` says otherwise. */
  sandbox(name: string, pid: number, more: Partial<FoundSandbox> = {}): FoundSandbox {
    const why = 'the test says so';
    return { id: `${this.name}:${name}`, pids: [pid], mode: 'reclaim', why, hazards: [], ...more };
  }

  /** Shows these from now on, and says so. */
  show(...found: FoundSandbox[]): void {
    this.found = found;
    this.listener?.changed();
  }
}
