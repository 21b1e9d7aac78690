/** Pages of a chunk: those that one page-table page maps (2 MiB). */
const CHUNK = 512;

type Column = Uint8Array | Uint32Array;

/**
 * A number for each page number of a sparse address space; 0 where nothing was set. Costs one typed array for each
 * 2 MiB in use: an object or Map entry a page would cost more than the page's compressed form.
 */
export class PageTable<A extends Column> {
  private readonly chunks = new Map<number, A>();

  /** `make` builds a zeroed chunk: it fixes the width of the numbers. */
  constructor(private readonly make: (length: number) => A) {}

  get(page: number): number {
    const chunk = this.chunks.get(Math.floor(page / CHUNK));
    return chunk === undefined ? 0 : chunk[page % CHUNK];
  }

  set(page: number, value: number): void {
    const index = Math.floor(page / CHUNK);
    let chunk = this.chunks.get(index);
    if (chunk === undefined) this.chunks.set(index, (chunk = this.make(CHUNK)));
    chunk[page % CHUNK] = value;
  }

  /** Visits the pages that have a number other than 0, in ascending order. */
  forEach(visit: (page: number, value: number) => void): void {
    for (const index of [...this.chunks.keys()].sort((a, b) => a - b)) {
      const chunk = this.chunks.get(index) as A;
      for (let i = 0; i < CHUNK; i++) if (chunk[i] !== 0) visit(index * CHUNK + i, chunk[i]);
    }
  }

  clear(): void {
    this.chunks.clear();
  }
}

export const wordTable = (): PageTable<Uint32Array> => new PageTable((length) => new Uint32Array(length));
export const byteTable = (): PageTable<Uint8Array> => new PageTable((length) => new Uint8Array(length));
