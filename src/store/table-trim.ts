import { PAGE } from '../native/libc.js';
import { punchHole } from '../native/files.js';
import { BLOCK, layout, SECTIONS, type Geometry } from './layout.js';
import type { TableUse } from './table-use.js';

/** Blocks looked at a step. */
const LOOK = 64;

/** Where a column of a table is in the memory file, bytes an entry, and where the next one begins. */
type Column = readonly [offset: number, width: number, end: number];

/** Columns of a table of `entries`. */
export function columnsOf(table: 'slot' | 'object', geometry: Geometry, entries: number): Column[] {
  const { sections } = layout(geometry);
  return SECTIONS.filter((name) => name.startsWith(table)).map((name) => {
    const [offset, bytes] = sections[name];
    return [offset, bytes / entries, offset + Math.ceil(bytes / PAGE) * PAGE];
  });
}

/**
 * Gives the memory of a table's empty blocks back to the kernel, a column of a block at a time. An entry that is read
 * afterwards is zero: nobody's.
 */
export class TableTrim {
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

  /** Makes at most one system call. False when it found nothing to give back. */
  step(): boolean {
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
    const [offset, width, end] = this.columns[this.column];
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
