import { existsSync, mkdirSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import { identify } from '../../memory/process.js';
import type { Pager } from '../../pager/client.js';
import type { PagerStatus } from '../../pager/protocol.js';
import { isMemoryPackOf, removeMemoryPack, writeMemoryPack } from '../../store/memory-pack.js';
import { isIntact } from '../../store/memory-source.js';
import { whileWriting, writePack, type PackMeta } from '../../store/pack.js';
import type { CaptureStatus, TemplateSpec, TemplateStatus } from '../api.js';
import { capture } from './capture.js';
import type { CapturedTemplates } from './captured-templates.js';
import { mayUseTemplate } from '../claims/domain.js';
import type { Models } from '../prefetch/models.js';
import type { Sandbox } from '../sandboxes/sandbox.js';
import { emptyTemplate, loadTemplate, type Template } from './template-pack.js';
import type { Window } from '../windows/window.js';

/** Ids become file names. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** The registered templates and their packs. */
export class Templates {
  /** Captures that go on now. */
  readonly captures = new Set<CaptureStatus>();
  private readonly byId = new Map<string, Template>();

  constructor(
    private readonly pager: Pager,
    /** Where captured packs are kept. */
    private readonly folder: string,
    /** Throws when a process may not be captured. */
    private readonly checkProcess: (pid: number) => void,
    /** Those that nobody has registered. */
    readonly captured: CapturedTemplates,
  ) {}

  has(id: string): boolean {
    return this.byId.has(id);
  }

  /** The template whose pages a sandbox may be stored against, if any; none when its memory file has changed. */
  baseFor({ id, spec }: Pick<Sandbox, 'id' | 'spec'>): Template | null {
    const template = spec.template === undefined ? undefined : this.byId.get(spec.template);
    if (template !== undefined && template.memory !== null && !isIntact(template.memory)) return null;
    if (template !== undefined && mayUseTemplate({ id, tenant: spec.tenant }, template)) return template;
    return this.captured.baseFor({ spec });
  }

  /** Captures what a sandbox has no template of, where that is wanted, before its pages go out. */
  async before(sandbox: Sandbox, window: Window): Promise<void> {
    // Those of memory files are not captured: see memory-templates.ts.
    if (sandbox.finding?.memoryFile !== undefined) return;
    if (this.baseFor(sandbox) === null) await this.captured.before(sandbox, window);
  }

  /**
   * Registers a template: captures a process or takes a pack. The same request again changes nothing. `inUse`: a
   * sandbox refers to the id, so another one may not take its place (AZ_TEMPLATE_IN_USE). `dryRun`: no process is captured,
   * nothing is written.
   */
  async put(id: string, spec: TemplateSpec, inUse: boolean, dryRun = false): Promise<Template> {
    if (!ID.test(id)) {
      throw new AgentZipError('AZ_BAD_REQUEST', {
        what: 'the id of a template has 1 to 128 letters, digits, dots, dashes and underscores',
      });
    }
    const known = this.byId.get(id);
    if (known !== undefined && inUse) {
      if (JSON.stringify(known.spec) === JSON.stringify(spec)) return known;
      throw new AgentZipError('AZ_TEMPLATE_IN_USE', { id });
    }
    if ([spec.pid, spec.pack, spec.memoryFile].filter((source) => source !== undefined).length !== 1) {
      throw new AgentZipError('AZ_BAD_REQUEST', { what: 'give exactly one of pid, pack and memoryFile' });
    }
    if (spec.pid !== undefined) this.checkProcess(spec.pid);
    if (dryRun && spec.pack === undefined) return this.pretend(id, spec);
    if (known !== undefined) await this.unload(known);
    const path = spec.pack ?? (await this.make(id, spec));
    return this.load(id, spec, path);
  }

  /** Forgets a template. Errors: AZ_UNKNOWN_TEMPLATE; AZ_TEMPLATE_IN_USE also while stored pages rest on it. */
  async drop(id: string, inUse: boolean): Promise<void> {
    const known = this.byId.get(id);
    if (known === undefined) throw new AgentZipError('AZ_UNKNOWN_TEMPLATE', { id });
    if (inUse) throw new AgentZipError('AZ_TEMPLATE_IN_USE', { id });
    await this.unload(known);
  }

  statuses(packs: PagerStatus['packs'], models: Models): TemplateStatus[] {
    return [...this.byId.values(), ...this.captured.all].map((template) => describe(template, packs, models));
  }

  private async load(id: string, spec: TemplateSpec, path: string): Promise<Template> {
    const template = await loadTemplate(this.pager, id, id, spec, path);
    this.byId.set(id, template);
    return template;
  }

  private pretend(id: string, spec: TemplateSpec): Template {
    const template = emptyTemplate(id, spec);
    this.byId.set(id, template);
    return template;
  }

  /** Writes a pack of a process, or for a memory file; returns its path. */
  private async make(id: string, spec: TemplateSpec): Promise<string> {
    whileWriting(this.folder, () => mkdirSync(this.folder, { recursive: true, mode: 0o700 }));
    const meta = { id, tenant: spec.tenant ?? null, public: spec.public ?? false };
    const { memoryFile, pid } = spec;
    const path = this.freePath(
      id,
      (taken) => memoryFile !== undefined && isMemoryPackOf(taken, memoryFile, meta),
    );
    if (memoryFile === undefined) await this.captureProcess(path, pid as number, meta);
    else if (!existsSync(path)) await writeMemoryPack(path, memoryFile, meta);
    return path;
  }

  private async captureProcess(path: string, pid: number, meta: PackMeta): Promise<void> {
    const process = identify(pid);
    const captured = process && capture(process);
    if (!captured) throw new AgentZipError('AZ_NO_SUCH_PROCESS', { pid });
    const progress: CaptureStatus = { id: meta.id, pages: 0, totalPages: captured.count };
    this.captures.add(progress);
    try {
      await writePack(path, captured.regions, counted(captured.pages, progress), meta);
    } finally {
      this.captures.delete(progress);
    }
  }

  /**
   * A pack that was left by an earlier run may still hold bases for a pager that outlived it: never overwrite one. One that
   * `fits` is taken as it is.
   */
  private freePath(id: string, fits: (path: string) => boolean): string {
    for (let n = 0; ; n++) {
      const path = `${this.folder}/${id}${n === 0 ? '' : `.${n}`}.pack`;
      if (!existsSync(path) || fits(path)) return path;
    }
  }

  /** The pager refuses when stored pages still name the pack. */
  private async unload({ id, pack, path, spec }: Template): Promise<void> {
    try {
      await this.pager.request('unloadPack', { pack });
    } catch (cause) {
      if (!(cause instanceof AgentZipError) || cause.code !== 'AZ_PAGER_REFUSED') throw cause;
      throw new AgentZipError('AZ_TEMPLATE_IN_USE', { id }, { cause });
    }
    this.byId.delete(id);
    if (spec.pack === undefined && path !== '') removeMemoryPack(path);
  }
}

async function* counted<T>(pages: AsyncIterable<T>, progress: CaptureStatus): AsyncGenerator<T> {
  for await (const page of pages) {
    progress.pages++;
    yield page;
  }
}

/** What the API says of a template; resident bytes are what "base" charges for it. */
export function describe(template: Template, packs: PagerStatus['packs'], models: Models): TemplateStatus {
  const { id, tenant, pages, distinctPages, pack } = template;
  const residentBytes = packs.find((entry) => entry.pack === pack)?.residentBytes ?? 0;
  return {
    id,
    tenant,
    public: template.public,
    pages,
    distinctPages,
    residentBytes: Math.min(residentBytes, distinctPages * PAGE),
    compression: template.compression.status(),
    prefetch: models.status(template.name),
  };
}
