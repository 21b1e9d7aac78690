import { Kind } from '../codec/kinds.js';
import type { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { memcpy } from '../native/memory.js';
import { ZstdDecompressor } from '../native/zstd.js';
import type { PackSet } from './packs.js';
import type { Tables } from './tables.js';

/** Bytes of workspace a decoder needs for itself. */
export const DECODER_BYTES = PAGE + 64;

/**
 * Turns an object back into its page. Shared by the data loop and the refine workers. A worker may read an object
 * while the loop replaces it: it then gets false, or bytes whose hash does not fit, and never more than that.
 */
export class Decoder {
  private readonly zstd = new ZstdDecompressor();
  private readonly address: number;

  /** `scratch`: offset of DECODER_BYTES in the workspace. */
  constructor(
    private readonly tables: Tables,
    private readonly packs: PackSet,
    private readonly workspace: Workspace,
    private readonly scratch: number,
  ) {
    this.address = workspace.address;
  }

  /** Decodes into the workspace at `to` and checks the hash; false when the page can not be had. */
  read(object: number, to: number): boolean {
    return this.decode(object, to) && this.matches(object, to);
  }

  /** Does the page at `at` have the object's hash? */
  matches(object: number, at: number): boolean {
    const hash = this.scratch + PAGE;
    this.workspace.kernels.xxh64(at, hash);
    const { words } = this.workspace;
    return (
      words[hash / 4] === this.tables.objectHashLow[object] &&
      words[hash / 4 + 1] === this.tables.objectHashHigh[object]
    );
  }

  private decode(object: number, to: number): boolean {
    const { tables } = this;
    const target = this.address + to;
    const length = tables.objectLength[object];
    switch (tables.objectKind[object]) {
      case Kind.SAME: {
        const word = this.scratch + PAGE + 16;
        this.workspace.words[word / 4] = tables.objectOffset[object];
        this.workspace.words[word / 4 + 1] = tables.objectBase[object];
        this.workspace.kernels.fill(to, word);
        return true;
      }
      case Kind.STAGED:
      case Kind.RAW:
        memcpy(target, tables.addressOf(object), PAGE);
        return true;
      case Kind.ZSTD:
        return this.zstd.decompress(target, PAGE, tables.addressOf(object), length) === PAGE;
      case Kind.TEMPLATE: {
        const base = this.packs.address(tables.objectBase[object]);
        if (base === 0) return false;
        memcpy(target, base, PAGE);
        return true;
      }
      case Kind.TEMPLATE_DELTA:
        return this.undelta(object, to, this.packs.address(tables.objectBase[object]));
      case Kind.DELTA:
        return this.undelta(object, to, this.baseAddress(tables.objectBase[object]));
      default:
        return false;
    }
  }

  private undelta(object: number, to: number, base: number): boolean {
    if (base === 0) return false;
    const from = this.tables.addressOf(object);
    const length = this.tables.objectLength[object];
    return this.zstd.decompressDelta(this.address + to, PAGE, from, length, base, PAGE) === PAGE;
  }

  /** Native address of a base's page: in place when it is raw, else decoded to the scratch page; 0 when it can't be one. */
  private baseAddress(base: number): number {
    const kind = this.tables.objectKind[base];
    if (kind === Kind.RAW) return this.tables.addressOf(base);
    if (kind !== Kind.ZSTD) return 0;
    const length = this.tables.objectLength[base];
    const scratch = this.address + this.scratch;
    return this.zstd.decompress(scratch, PAGE, this.tables.addressOf(base), length) === PAGE ? scratch : 0;
  }
}
