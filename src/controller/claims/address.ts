import { PAGE } from '../../native/libc.js';
import { kindOfKey, type Vma } from '../../memory/vmas.js';
import { NO_TEMPLATE_PAGE } from '../../pager/protocol.js';
import { memoryRegionKey } from '../../store/memory-pack.js';

/** A run of template addresses, as template packs keep it: see src/store/pack.ts. */
export interface TemplateRegion {
  key: string;
  start: number;
  pages: number;
}

/** Where a program was loaded. Equal marks mean one address space layout: forks of one process, never two programs. */
const MARKS = ['program', 'heap', 'stack'] as const;
type Mark = (typeof MARKS)[number];

const MARK_PREFIX = 'layout:';
/** Kind of a region that is a memory file. */
const MEMORY_KIND = kindOfKey(memoryRegionKey(''));
/** Holes in a mapping from which on it becomes two regions, so that reserved address space costs no table. */
const HOLE_PAGES = 1024;

function layoutOf(vmas: readonly Vma[]): Partial<Record<Mark, number>> {
  return {
    program: vmas.find((vma) => vma.permissions[2] === 'x' && vma.path.startsWith('/'))?.start,
    heap: vmas.find((vma) => vma.kind === 'heap')?.start,
    // A stack grows downwards: its end is what stays.
    stack: vmas.find((vma) => vma.kind === 'stack')?.end,
  };
}

/**
 * Regions of a template: its layout's marks, which hold no pages, then the runs of pages in use.
 * `pages` are the page numbers (address / 4096) of a VMA in ascending order.
 */
export function templateRegions(
  vmas: readonly Vma[],
  pages: (vma: Vma) => readonly number[],
): TemplateRegion[] {
  const layout = layoutOf(vmas);
  const regions: TemplateRegion[] = MARKS.filter((mark) => layout[mark] !== undefined).map((mark) => ({
    key: MARK_PREFIX + mark,
    start: layout[mark] as number,
    pages: 0,
  }));
  for (const vma of vmas) {
    let open: TemplateRegion | undefined;
    for (const page of pages(vma)) {
      const next = open ? open.start / PAGE + open.pages : 0;
      if (open && page - next < HOLE_PAGES) {
        open.pages += page - next + 1;
      } else {
        const offset = page - vma.start / PAGE;
        regions.push((open = { key: `${vma.key}+${offset}`, start: page * PAGE, pages: 1 }));
      }
    }
  }
  return regions;
}

interface Placed extends TemplateRegion {
  /** Template page of the region's first page. */
  base: number;
  kind: string;
  /** Key of the mapping it was part of, and where in it it began, in pages. */
  vmaKey: string;
  vmaOffset: number;
}

function place(regions: readonly TemplateRegion[]): Placed[] {
  let base = 0;
  return regions.map((region) => {
    const plus = region.key.lastIndexOf('+');
    const placed = {
      ...region,
      base,
      kind: kindOfKey(region.key),
      vmaKey: plus < 0 ? region.key : region.key.slice(0, plus),
      vmaOffset: plus < 0 ? 0 : Number(region.key.slice(plus + 1)),
    };
    base += region.pages;
    return placed;
  });
}

/** Template page of a page (address / 4096) of a VMA, or NO_TEMPLATE_PAGE. Fast for ascending pages. */
export type AddressMapper = (vma: Vma, page: number) => number;

/** The address space of one template. */
export class TemplateAddresses {
  private readonly byStart: Placed[];
  private readonly byKey = new Map<string, Placed[]>();
  private readonly marks = new Map<string, number>();
  /** Memory files, by their keys. */
  private readonly memory = new Map<string, Placed>();

  constructor(regions: readonly TemplateRegion[]) {
    const placed = place(regions);
    for (const region of placed) {
      if (region.key.startsWith(MARK_PREFIX)) {
        this.marks.set(region.key.slice(MARK_PREFIX.length), region.start);
        continue;
      }
      if (region.kind === MEMORY_KIND) this.memory.set(region.key, region);
      const siblings = this.byKey.get(region.vmaKey);
      if (siblings) siblings.push(region);
      else this.byKey.set(region.vmaKey, [region]);
    }
    this.byStart = placed.filter((region) => region.pages > 0).sort((a, b) => a.start - b.start);
  }

  /** How the pages of a process with these VMAs map to the template. */
  mapper(vmas: readonly Vma[]): AddressMapper {
    return this.sameLayout(vmas) ? this.byAddress() : this.byName();
  }

  private sameLayout(vmas: readonly Vma[]): boolean {
    const layout = layoutOf(vmas);
    return this.marks.size > 0 && MARKS.every((mark) => layout[mark] === this.marks.get(mark));
  }

  /** Forks: a page keeps its address, however its mapping has grown, shrunk or been split since. */
  private byAddress(): AddressMapper {
    let last: Placed | undefined;
    const contains = (region: Placed | undefined, address: number): region is Placed =>
      region !== undefined && address >= region.start && address < region.start + region.pages * PAGE;
    return (vma, page) => {
      const address = page * PAGE;
      if (!contains(last, address)) last = this.regionBelow(address);
      if (!contains(last, address) || last.kind !== vma.kind) return NO_TEMPLATE_PAGE;
      return last.base + (address - last.start) / PAGE;
    };
  }

  private regionBelow(address: number): Placed | undefined {
    let low = 0;
    let high = this.byStart.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.byStart[middle].start <= address) low = middle + 1;
      else high = middle;
    }
    return this.byStart[low - 1];
  }

  /** Programs started afresh: the mapping's name and the offset in it. Machines: the offset in the memory file. */
  private byName(): AddressMapper {
    return (vma, page) => {
      const memory = vma.kind === 'private-file' ? this.memory.get(memoryRegionKey(vma.inode)) : undefined;
      if (memory !== undefined) {
        const inFile = page + (vma.offset - vma.start) / PAGE;
        return inFile < memory.pages ? memory.base + inFile : NO_TEMPLATE_PAGE;
      }
      const offset = page - vma.start / PAGE;
      const region = this.byKey
        .get(vma.key)
        ?.find(({ vmaOffset, pages }) => offset >= vmaOffset && offset < vmaOffset + pages);
      return region === undefined ? NO_TEMPLATE_PAGE : region.base + offset - region.vmaOffset;
    };
  }
}
