import { expect, test } from 'vitest';
import { TemplateAddresses, templateRegions } from '../src/controller/claims/address.js';
import { parseVmas, type Vma } from '../src/memory/vmas.js';
import { PAGE } from '../src/native/libc.js';
import { NO_TEMPLATE_PAGE } from '../src/pager/protocol.js';

interface Layout {
  program?: number;
  heap?: number;
  heapPages?: number;
  library?: number;
  stack?: number;
}

/** Maps of a small program; addresses and sizes in pages. */
function vmasOf({
  program = 0x1000,
  heap = 0x2000,
  heapPages = 16,
  library = 0x9000,
  stack = 0xf000,
}: Layout = {}): Vma[] {
  const line = (start: number, pages: number, permissions: string, inode: number, path: string): string =>
    `${(start * PAGE).toString(16)}-${((start + pages) * PAGE).toString(16)} ${permissions} 00000000 00:00 ${inode} ${path}`;
  return parseVmas(
    [
      line(program, 4, 'r-xp', 7, '/bin/agent'),
      line(program + 4, 2, 'rw-p', 7, '/bin/agent'),
      line(heap, heapPages, 'rw-p', 0, '[heap]'),
      line(library, 3, 'rw-p', 8, '/lib/a.so'),
      line(library + 3, 2, 'rw-p', 0, ''),
      line(stack - 8, 8, 'rw-p', 0, '[stack]'),
    ].join('\n'),
  );
}

const every = (vma: Vma): number[] =>
  vma.leftOut === null
    ? Array.from({ length: (vma.end - vma.start) / PAGE }, (_, i) => vma.start / PAGE + i)
    : [];

const template = new TemplateAddresses(templateRegions(vmasOf(), every));

/** Template page of a page of the mapping that holds it. */
function locate(vmas: Vma[], page: number, addresses = template): number {
  const vma = vmas.find(({ start, end }) => page * PAGE >= start && page * PAGE < end) as Vma;
  return addresses.mapper(vmas)(vma, page);
}

test('regions lie one after another', () => {
  const vmas = vmasOf();
  // 2 pages of data, 16 of heap, 3 of the library, 2 of its .bss, 8 of stack.
  expect(locate(vmas, 0x1004)).toBe(0);
  expect(locate(vmas, 0x2000)).toBe(2);
  expect(locate(vmas, 0x9000)).toBe(18);
  expect(locate(vmas, 0x9004)).toBe(22);
  expect(locate(vmas, 0xefff)).toBe(30);
});

test('in a fork a page keeps its place when its mapping has grown or was split', () => {
  const fork = vmasOf({ heapPages: 40 });
  expect(locate(fork, 0x200f)).toBe(17);
  expect(locate(fork, 0x2010)).toBe(NO_TEMPLATE_PAGE);
  const heap = fork.find(({ kind }) => kind === 'heap') as Vma;
  const split = fork.flatMap((vma) =>
    vma === heap
      ? [
          { ...vma, end: vma.start + 4 * PAGE },
          { ...vma, start: vma.start + 4 * PAGE, key: 'heap:[heap]:1' },
        ]
      : [vma],
  );
  expect(locate(split, 0x2005)).toBe(7);
});

test('in a fork an address that has become something else maps to nothing', () => {
  const fork = vmasOf().map((vma) =>
    vma.path === '/lib/a.so' ? { ...vma, kind: 'anonymous' as const } : vma,
  );
  expect(locate(fork, 0x9000)).toBe(NO_TEMPLATE_PAGE);
});

test('in a program started afresh mappings are found by name, rank and offset', () => {
  const fresh = vmasOf({ program: 0x5001, heap: 0x7003, library: 0xa000, stack: 0xff00 });
  expect(locate(fresh, 0x5005)).toBe(0);
  expect(locate(fresh, 0x7003 + 5)).toBe(7);
  expect(locate(fresh, 0xa004)).toBe(22);
  expect(locate(fresh, 0xfeff)).toBe(30);
});

test('a program that only happens to have one address in common is no fork', () => {
  const fresh = vmasOf({ heap: 0x2002 });
  expect(locate(fresh, 0x2002)).toBe(2);
});

test('holes in a mapping take no template addresses', () => {
  const line = `${(0x4000 * PAGE).toString(16)}-${(0x104000 * PAGE).toString(16)} rw-p 00000000 00:00 0 `;
  const vmas = parseVmas(line);
  const used = [0x4000, 0x4001, 0x4003, 0x90000, 0x90001];
  const regions = templateRegions(vmas, () => used);
  expect(regions.map(({ key, pages }) => [key, pages])).toEqual([
    ['anonymous::0+0', 4],
    [`anonymous::0+${0x90000 - 0x4000}`, 2],
  ]);
  const addresses = new TemplateAddresses(regions);
  expect(locate(vmas, 0x90001, addresses)).toBe(5);
  expect(locate(vmas, 0x50000, addresses)).toBe(NO_TEMPLATE_PAGE);
});
