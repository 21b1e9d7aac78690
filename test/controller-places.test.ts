import { expect, test } from 'vitest';
import { Places } from '../src/controller/prefetch/places.js';
import { parseVmas, type Vma } from '../src/memory/vmas.js';

const PAGE = 4096;

/** Maps of a small program, placed as the kernel does: addresses in pages. */
function vmasOf({ program = 0x5000, heap = 0x8000, top = 0x7f0000, stack = 0x7ff000 } = {}): Vma[] {
  const line = (start: number, pages: number, permissions: string, inode: number, path: string): string =>
    `${(start * PAGE).toString(16)}-${((start + pages) * PAGE).toString(16)} ${permissions} 00000000 00:00 ${inode} ${path}`;
  return parseVmas(
    [
      line(program, 4, 'r-xp', 7, '/bin/agent'),
      line(program + 4, 2, 'rw-p', 7, '/bin/agent'),
      line(heap, 16, 'rw-p', 0, '[heap]'),
      line(top - 300, 100, 'rw-p', 0, ''),
      line(top, 4, 'r-xp', 9, '/lib/ld.so'),
      line(top + 4, 2, 'rw-p', 9, '/lib/ld.so'),
      line(stack - 8, 8, 'rw-p', 0, '[stack]'),
    ].join('\n'),
  );
}

/** Places of every page that may be paged out. */
function placesOf(vmas: Vma[]): number[] {
  const places = new Places(vmas);
  return vmas
    .filter(({ leftOut }) => leftOut === null)
    .flatMap((vma) =>
      Array.from({ length: (vma.end - vma.start) / PAGE }, (_, i) => places.of(vma, vma.start / PAGE + i)),
    );
}

test('every page has a place of its own, of 32 bits', () => {
  const places = placesOf(vmasOf());
  expect(new Set(places).size).toBe(places.length);
  expect(places.every((place) => Number.isInteger(place) && place >= 0 && place < 2 ** 32)).toBe(true);
});

test('places survive address space randomisation', () => {
  const moved = vmasOf({ program: 0x55555, heap: 0x5a000, top: 0x7ffe00, stack: 0x7fffe0 });
  expect(placesOf(moved)).toEqual(placesOf(vmasOf()));
});

test('neighbours stay neighbours', () => {
  const vmas = vmasOf();
  const heap = vmas.find(({ kind }) => kind === 'heap') as Vma;
  const places = new Places(vmas);
  expect(places.of(heap, heap.start / PAGE + 1) - places.of(heap, heap.start / PAGE)).toBe(1);
});

test('a process without heap or libraries has places all the same', () => {
  const vmas = vmasOf()
    .filter(({ kind }) => kind !== 'heap' && kind !== 'stack')
    .slice(0, 2);
  expect(new Set(placesOf(vmas)).size).toBe(2);
});
