import { PAGE } from '../../native/libc.js';
import type { Vma } from '../../memory/vmas.js';

/** The upper bits of a place say in which part of the address space it is, the lower ones count pages from its mark. */
const OFFSETS = 2 ** 28;
const Part = { MAPPINGS: 0, HEAP: 1, PROGRAM: 2, STACK: 3 } as const;

const isCode = (vma: Vma): boolean => vma.permissions[2] === 'x' && vma.path.startsWith('/');

/**
 * Names the pages of a process so that the same page has the same name, 32 bits, in every process that does the same:
 * by its distance from what the kernel places at random as a whole. That is the heap, the program, the stack, and the
 * mappings, which follow one another below the loader.
 */
export class Places {
  private readonly heap: number;
  private readonly program: number;
  private readonly stack: number;
  private readonly mappings: number;

  constructor(vmas: readonly Vma[]) {
    const start = (vma: Vma | undefined): number => (vma === undefined ? 0 : vma.start / PAGE);
    const heap = vmas.find(({ kind }) => kind === 'heap');
    const stack = vmas.find(({ kind }) => kind === 'stack');
    this.program = start(vmas.find(isCode));
    this.heap = heap === undefined ? this.program : start(heap);
    // It grows downwards.
    this.stack = stack === undefined ? 0 : stack.end / PAGE;
    this.mappings = start(vmas.findLast(isCode));
  }

  of(vma: Vma, page: number): number {
    if (vma.kind === 'heap') return named(Part.HEAP, page - this.heap);
    if (vma.kind === 'stack') return named(Part.STACK, page - this.stack);
    if (page < this.heap) return named(Part.PROGRAM, page - this.program);
    return named(Part.MAPPINGS, page - this.mappings);
  }
}

/** A distance is below 2^36 pages; only its lower bits are kept, also of a negative one. */
const named = (part: number, distance: number): number =>
  (part * OFFSETS + (((distance % OFFSETS) + OFFSETS) % OFFSETS)) >>> 0;
