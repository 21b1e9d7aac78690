import { canBeBase } from '../codec/kinds.js';
import type { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { DEPTH, depthOf } from './chains.js';
import type { Decoder } from './decoder.js';
import { packReference, type PackSet, type PackView } from './packs.js';
import { MAX_CANDIDATES, type SketchIndex } from './sketch-index.js';
import type { Tables } from './tables.js';

/** The template's page at the same address, and what the policy's `candidates` may ask for from each index. */
const MAX_MOST = 16;
const MAX_BASES = 1 + 2 * MAX_MOST;
/** Bytes of workspace that the bases of one page take. */
export const BASES_BYTES = MAX_BASES * PAGE;

/** Pages to build a delta on, in a worker's workspace. */
export class Bases {
  count = 0;
  /** Of each: object or template reference; whether it is a template's page; how many of the 512 words differ. */
  readonly name = new Uint32Array(MAX_BASES);
  readonly isTemplate = new Uint8Array(MAX_BASES);
  readonly differs = new Uint16Array(MAX_BASES);
  /** Their numbers, the nearest first. */
  readonly order = new Uint8Array(MAX_BASES);
  private readonly found = new Uint32Array(MAX_CANDIDATES);

  /** `at`: offset of BASES_BYTES in the workspace. `page` and `sketch`: offsets of the page and its sketch. */
  constructor(
    private readonly tables: Tables,
    private readonly decoder: Decoder,
    private readonly packs: PackSet,
    private readonly sketches: SketchIndex,
    private readonly workspace: Workspace,
    private readonly offsets: { at: number; page: number; sketch: number },
  ) {}

  /** Offset of a base's page in the workspace. */
  at(base: number): number {
    return this.offsets.at + base * PAGE;
  }

  /** Takes in at most `most` pages of the template that look alike, but not `same`, which is there already. */
  addTemplate(pack: PackView, same: number, most: number): void {
    const { words } = this.workspace;
    const count = Math.min(most, MAX_MOST, pack.sketches.find(words, this.offsets.sketch / 4, 0, this.found));
    for (let i = 0; i < count; i++) if (this.found[i] !== same) this.addPage(pack, this.found[i]);
  }

  /** Takes in at most `most` pages of the domain that look alike. */
  addSiblings(domain: number, most: number): void {
    const { tables, found } = this;
    const count = this.sketches.find(this.workspace.words, this.offsets.sketch / 4, domain, found);
    for (let i = 0, added = 0; i < count && added < Math.min(most, MAX_MOST); i++) {
      const object = found[i];
      if (tables.objectDomain[object] !== domain || !canBeBase(tables.objectKind[object])) continue;
      if (depthOf(tables, object) >= DEPTH || !this.decoder.read(object, this.at(this.count))) continue;
      this.add(object, 0);
      added++;
    }
  }

  /** Takes in a page of the template. */
  addPage(pack: PackView, page: number): void {
    const reference = packReference(pack.mapping.pack, page);
    if (this.packs.read(reference, this.workspace.address + this.at(this.count))) this.add(reference, 1);
  }

  /** Counts the page at the next place in. */
  private add(name: number, isTemplate: number): void {
    const base = this.count++;
    const differs = this.workspace.kernels.differingWords(this.offsets.page, this.at(base));
    this.name[base] = name;
    this.isTemplate[base] = isTemplate;
    this.differs[base] = differs;
    let place = base;
    for (; place > 0 && this.differs[this.order[place - 1]] > differs; place--)
      this.order[place] = this.order[place - 1];
    this.order[place] = base;
  }
}
