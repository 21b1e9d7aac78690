import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { AgentZipError } from '../errors.js';
import { PAGE } from '../native/libc.js';
import { identify } from '../memory/process.js';
import type { PagerClient } from '../pager/client.js';
import type { PagerStatus } from '../pager/protocol.js';
import { readPackRegions, whileWriting, writePack } from '../store/pack.js';
import { TemplateAddresses } from './address.js';
import type { CaptureStatus, TemplateSpec, TemplateStatus } from './api.js';
import { capture } from './capture.js';
import { Compression } from './compression.js';
import { mayUseTemplate } from './domain.js';
import type { Models } from './models.js';
import type { Sandbox } from './sandbox.js';

/** A template as the controller uses it. */
export interface Template {
  id: string;
  tenant: string | null;
  public: boolean;
  /** Its pack's number at the pager. */
  pack: number;
  path: string;
  pages: number;
  distinctPages: number;
  addresses: TemplateAddresses;
  compression: Compression;
  spec: TemplateSpec;
}

/** Ids become file names. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** The registered templates and their packs. */
export class Templates {
  /** Captures that go on now. */
  readonly captures = new Set<CaptureStatus>();
  private readonly byId = new Map<string, Template>();

  constructor(
    private readonly pager: PagerClient,
    /** Where captured packs are kept. */
    private readonly folder: string,
    /** Throws when a process may not be captured. */
    private readonly checkProcess: (pid: number) => void,
  ) {}

  has(id: string): boolean {
    return this.byId.has(id);
  }

  /** The template whose pages a sandbox may be stored against, if any. */
  baseFor({ id, spec }: Pick<Sandbox, 'id' | 'spec'>): Template | null {
    const template = spec.template === undefined ? undefined : this.byId.get(spec.template);
    if (template === undefined) return null;
    return mayUseTemplate({ id, tenant: spec.tenant }, template) ? template : null;
  }

  /**
   * Registers a template: captures a process or takes a pack. The same request again changes nothing. `inUse`: a
   * sandbox refers to the id, so another one may not take its place (AZ_TEMPLATE_IN_USE).
   */
  async put(id: string, spec: TemplateSpec, inUse: boolean): Promise<Template> {
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
    if ((spec.pid === undefined) === (spec.pack === undefined)) {
      throw new AgentZipError('AZ_BAD_REQUEST', { what: 'give exactly one of pid and pack' });
    }
    if (spec.pid !== undefined) this.checkProcess(spec.pid);
    if (known !== undefined) await this.unload(known);
    const path = spec.pack ?? (await this.captureProcess(id, spec.pid as number, spec));
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
    return [...this.byId.values()].map((template) => describe(template, packs, models));
  }

  private async load(id: string, spec: TemplateSpec, path: string): Promise<Template> {
    const { regions, meta } = readPackRegions(path);
    if (spec.tenant !== undefined && meta.tenant !== null && spec.tenant !== meta.tenant) {
      throw new AgentZipError('AZ_PACK_INVALID', { path, reason: 'it belongs to another tenant' });
    }
    const owner = { tenant: spec.tenant ?? meta.tenant, public: spec.public ?? meta.public };
    const { pack, distinctPages } = await this.pager.request('loadPack', { path });
    const pages = regions.reduce((sum, region) => sum + region.pages, 0);
    const addresses = new TemplateAddresses(regions);
    const compression = new Compression();
    const template: Template = {
      id,
      ...owner,
      pack,
      path,
      pages,
      distinctPages,
      addresses,
      compression,
      spec,
    };
    this.byId.set(id, template);
    return template;
  }

  private async captureProcess(id: string, pid: number, spec: TemplateSpec): Promise<string> {
    whileWriting(this.folder, () => mkdirSync(this.folder, { recursive: true, mode: 0o700 }));
    const process = identify(pid);
    const captured = process && capture(process);
    if (!captured) throw new AgentZipError('AZ_NO_SUCH_PROCESS', { pid });
    const path = this.freePath(id);
    const progress: CaptureStatus = { id, pages: 0, totalPages: captured.count };
    this.captures.add(progress);
    try {
      const meta = { id, tenant: spec.tenant ?? null, public: spec.public ?? false };
      await writePack(path, captured.regions, counted(captured.pages, progress), meta);
    } finally {
      this.captures.delete(progress);
    }
    return path;
  }

  /** A pack that was left by an earlier run may still hold bases for a pager that outlived it: never overwrite one. */
  private freePath(id: string): string {
    for (let n = 0; ; n++) {
      const path = `${this.folder}/${id}${n === 0 ? '' : `.${n}`}.pack`;
      if (!existsSync(path)) return path;
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
    if (spec.pack === undefined) rmSync(path, { force: true });
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
    prefetch: models.status(id),
  };
}
