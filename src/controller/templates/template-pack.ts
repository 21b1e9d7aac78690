import { AgentZipError } from '../../errors.js';
import type { Pager } from '../../pager/client.js';
import type { MemorySource } from '../../store/memory-source.js';
import { readPackRegions } from '../../store/pack.js';
import { TemplateAddresses } from '../claims/address.js';
import type { TemplateSpec } from '../api.js';
import { Compression } from './compression.js';

/** A template as the controller uses it. */
export interface Template {
  id: string;
  /** What its sandboxes call it; of those that a host registers, its id. */
  name: string;
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
  /** Where its pages are, when they are not in its pack. */
  memory: MemorySource | null;
}

/** Makes the pager load a pack. AZ_PACK_INVALID. */
export async function loadTemplate(
  pager: Pager,
  id: string,
  name: string,
  spec: TemplateSpec,
  path: string,
): Promise<Template> {
  const { regions, meta, memory = null } = readPackRegions(path);
  if (spec.tenant !== undefined && meta.tenant !== null && spec.tenant !== meta.tenant) {
    throw new AgentZipError('AZ_PACK_INVALID', { path, reason: 'it belongs to another tenant' });
  }
  const owner = { tenant: spec.tenant ?? meta.tenant, public: spec.public ?? meta.public };
  const { pack, distinctPages } = await pager.request('loadPack', { path });
  const pages = regions.reduce((sum, region) => sum + region.pages, 0);
  const addresses = new TemplateAddresses(regions);
  const compression = new Compression();
  return { id, name, ...owner, pack, path, pages, distinctPages, addresses, compression, spec, memory };
}

/** Stands for a template where nothing is captured: in a dry run. */
export function emptyTemplate(id: string, spec: TemplateSpec): Template {
  return {
    ...{ id, name: id, tenant: spec.tenant ?? null, public: spec.public ?? false, spec },
    ...{ pack: 0, path: '', pages: 0, distinctPages: 0, memory: null },
    ...{ addresses: new TemplateAddresses([]), compression: new Compression() },
  };
}
