import { explain } from '../../errors.js';
import type { FoundSandbox } from '../../hosts/adapter.js';
import { templateId } from '../../hosts/names.js';
import type { TemplateSpec } from '../api.js';

/** A memory file that was refused is tried again after this time: its host may have mended it. */
const RETRY_MS = 60_000;
/** Templates made so at a time; each reads a file of some GiB. The pager takes 255 packs. */
const MOST = 64;

export interface TemplateMaker {
  has(id: string): boolean;
  put(id: string, spec: TemplateSpec): Promise<unknown>;
}

/** Makes the memory files that machines are found to run on their templates, one after the other. */
export class MemoryTemplates {
  private readonly asked = new Set<string>();
  private readonly failures = new Map<string, { host: string; reason: string; at: number }>();
  private last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly templates: TemplateMaker,
    /** Told when a platform's warnings have changed. */
    private readonly changed: (host: string) => void,
  ) {}

  /** Without a tenant no machine could use it. */
  offer(host: string, { template, memoryFile, tenant, mode }: FoundSandbox): void {
    if (memoryFile === undefined || template === undefined || tenant === undefined || mode === 'observe')
      return;
    const id = templateId(template);
    const failed = this.failures.get(id);
    const tooSoon = failed !== undefined && Date.now() - failed.at < RETRY_MS;
    if (this.asked.has(id) || this.templates.has(id) || tooSoon || this.asked.size >= MOST) return;
    this.asked.add(id);
    this.last = this.last.then(() => this.make(host, id, { memoryFile, tenant }));
  }

  warnings(host: string): string[] {
    return [...this.failures]
      .filter(([, failure]) => failure.host === host)
      .map(([id, { reason }]) => `${id}: ${reason}`);
  }

  private async make(host: string, id: string, spec: TemplateSpec): Promise<void> {
    try {
      await this.templates.put(id, spec);
      this.failures.delete(id);
    } catch (error) {
      this.failures.delete(id);
      if (this.failures.size < MOST) this.failures.set(id, { host, reason: explain(error), at: Date.now() });
    }
    this.asked.delete(id);
    this.changed(host);
  }
}
