import { PAGE } from '../native/libc.js';
import { punchHole } from '../native/files.js';
import { populate } from '../native/memory.js';
import { BLOCK, layout, SECTIONS } from './layout.js';
import type { TableUse } from './table-use.js';
import type { StoreMapping } from './tables.js';

/** Blocks looked at a step. */
const LOOK = 64;

interface Column {
  /** Where it is in the memory file, and where the next one begins. */
  offset: number;
  end: number;
  /** Where it is mapped. */
  address: number;
  /** Bytes an entry. */
  width: number;
  /** Few entries have anything here. */
  sparse: boolean;
}

/** Columns of a table of `entries`. */
export function columnsOf(table: 'slot' | 'object', mapping: StoreMapping, entries: number): Column[] {
  const { sections } = layout(mapping.geometry);
  return SECTIONS.filter((name) => name.startsWith(table)).map((name) => {
    const [offset, bytes] = sections[name];
    const end = offset + Math.ceil(bytes / PAGE) * PAGE;
    const sparse = name === 'objectRefsWide';
    return { offset, end, address: mapping.address + offset, width: bytes / entries, sparse };
  });
}

/** Memory of a table: an empty block's goes back to the kernel, and that of entries to come can be had before they are needed. */
export class TableMemory {
  /** The block that is looked at next, or that is given back, and how many of its columns are. */
  private block = 0;
  private column = 0;

  /** `fd`: the store's memory file. */
  constructor(
    private readonly fd: number,
    private readonly columns: readonly Column[],
    private readonly use: TableUse,
    private readonly rules: {
      /** Are the entries of a block, none of which is in use, zero or without meaning? */
      mayGo(block: number): boolean;
      /** A block was given back as a whole. */
      gone(): void;
    },
  ) {}

  /** Lets `count` entries from `first` on have their memory, as far as the table goes. */
  populate(first: number, count: number): void {
    for (const { offset, end, address, width, sparse } of this.columns) {
      if (sparse) continue;
      const from = Math.floor((first * width) / PAGE) * PAGE;
      const to = Math.min(end - offset, Math.ceil(((first + count) * width) / PAGE) * PAGE);
      if (to > from) populate(address + from, to - from);
    }
    this.use.touch(first, count);
  }

  /**
   * Gives a column of an empty block back, an entry of which is zero when it is read afterwards: nobody's. Makes at most one system
   * call. False when it found nothing to give back.
   */
  trim(): boolean {
    for (let looked = 0; looked < LOOK; looked++) {
      if (!this.use.isEmpty(this.block)) this.column = 0;
      else if (this.column > 0 || (this.use.hasMemory(this.block) && this.rules.mayGo(this.block))) {
        this.punch();
        return true;
      }
      this.block = this.block + 1 < this.use.blocks ? this.block + 1 : 0;
    }
    return false;
  }

  private punch(): void {
    const { offset, end, width } = this.columns[this.column];
    const from = offset + this.block * BLOCK * width;
    // The last block may be none in full.
    punchHole(this.fd, from, Math.min(BLOCK * width, end - from));
    this.column++;
    if (this.column < this.columns.length) return;
    this.column = 0;
    this.use.gaveBack(this.block);
    this.rules.gone();
  }
}
