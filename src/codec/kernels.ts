import { readFileSync } from 'node:fs';
import { addressOf } from '../native/memory.js';
import { packageRoot } from '../paths.js';

const WASM_PAGE = 65536;

/** Kernels over one linear memory; every argument is an offset in it. See kernels/page.ts for what each does. */
interface Exports {
  xxh64(page: number, out: number): void;
  isSameFilled(page: number): number;
  fill(page: number, word: number): void;
  differingWords(left: number, right: number): number;
  sketch(page: number, out: number): void;
  sparseDiff(page: number, base: number, out: number, most: number): number;
  sparsePatch(page: number, diff: number, length: number): number;
}

let compiled: WebAssembly.Module | undefined;

/**
 * A fixed piece of memory that the kernels work on and native code can be pointed at: it never grows, so its
 * address never changes. One per thread.
 */
export class Workspace {
  readonly kernels: Exports;
  /** Native address of offset 0. */
  readonly address: number;
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;

  /** `size` in bytes, rounded up to 64 KiB. */
  constructor(size: number) {
    const pages = Math.ceil(size / WASM_PAGE);
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    compiled ??= new WebAssembly.Module(readFileSync(`${packageRoot}/dist/codec/page.wasm`));
    const instance = new WebAssembly.Instance(compiled, { env: { memory } });
    this.kernels = instance.exports as unknown as Exports;
    this.address = addressOf(memory.buffer);
    this.bytes = new Uint8Array(memory.buffer);
    this.words = new Uint32Array(memory.buffer);
  }
}
