import koffi from 'koffi';
import { check } from './errno.js';
import { libc, PAGE } from './libc.js';

export const PROT_READ = 1;
export const PROT_WRITE = 2;
export const MAP_SHARED = 1;
export const MAP_PRIVATE = 2;
export const MAP_ANONYMOUS = 0x20;
export const MAP_NORESERVE = 0x4000;
export const MADV_RANDOM = 1;
export const MCL_CURRENT = 1;
export const MCL_FUTURE = 2;
export const MCL_ONFAULT = 4;

const mmap_ = libc.func(
  'intptr_t mmap(intptr_t addr, size_t length, int prot, int flags, int fd, int64_t offset)',
);
const munmap_ = libc.func('int munmap(intptr_t addr, size_t length)');
const mlockall_ = libc.func('int mlockall(int flags)');
const munlock_ = libc.func('int munlock(intptr_t addr, size_t length)');
const madvise_ = libc.func('int madvise(intptr_t addr, size_t length, int advice)');
const memfdCreate_ = libc.func('int memfd_create(const char *name, unsigned int flags)');

const mincore_ = libc.func('int mincore(intptr_t addr, size_t length, uint8_t *vector)');

/** Copies `length` bytes between addresses; they must not overlap. */
export const memcpy: (to: number, from: number, length: number) => number = libc.func(
  'intptr_t memcpy(intptr_t to, intptr_t from, size_t length)',
);

/** Fills `length` bytes at an address with `byte`. */
export const memset: (to: number, byte: number, length: number) => number = libc.func(
  'intptr_t memset(intptr_t to, int byte, size_t length)',
);

const malloc_ = libc.func('intptr_t malloc(size_t bytes)');
const free_ = libc.func('void free(intptr_t address)');

/**
 * Lets the C heap have so many bytes more that are present and free: what allocates later needs neither a system call nor
 * a page. Pieces below malloc's threshold for mappings of their own, so that they stay in the heap when they are freed.
 */
export function reserveHeap(bytes: number): void {
  const PIECE = 65536;
  const pieces = Array.from({ length: Math.ceil(bytes / PIECE) }, () => malloc_(PIECE));
  for (const piece of pieces) if (piece !== 0) memset(piece, 1, PIECE);
  for (const piece of pieces) free_(piece);
}

/** Maps `length` bytes and returns their address. `fd` -1 with MAP_ANONYMOUS. */
export function mmap(length: number, prot: number, flags: number, fd: number, offset = 0): number {
  return check(mmap_(0, length, prot, flags, fd, offset), 'mmap', `fd ${fd}, ${length} bytes`);
}

export function munmap(address: number, length: number): void {
  check(munmap_(address, length), 'munmap', `0x${address.toString(16)}`);
}

/** ArrayBuffer over native memory. It must stay mapped for as long as the buffer is used. */
export const view = (address: number, length: number): ArrayBuffer => koffi.view(address, length);

/** Address of a buffer's first byte. Stable only for WebAssembly memory that never grows and for native views. */
export const addressOf = (buffer: ArrayBuffer | ArrayBufferView): number => Number(koffi.address(buffer));

export function mlockall(flags: number): void {
  check(mlockall_(flags), 'mlockall', `flags ${flags}`);
}

export function munlock(address: number, length: number): void {
  check(munlock_(address, length), 'munlock', `0x${address.toString(16)}`);
}

/** madvise(2) on our own memory. */
export function madvise(address: number, length: number, advice: number): void {
  check(madvise_(address, length, advice), 'madvise', `0x${address.toString(16)}, advice ${advice}`);
}

/** Linux 5.14. */
const MADV_POPULATE_WRITE = 23;

/** Lets whole pages of our own have their memory, with what is in them, as a write to each would. */
export const populate = (address: number, length: number): void =>
  madvise(address, length, MADV_POPULATE_WRITE);

/** Anonymous memory file (close-on-exec). */
export function memfdCreate(name: string): number {
  return check(memfdCreate_(name, 1), 'memfd_create', name);
}

/** Address of `bytes` zeroed bytes outside the JS heap that cost memory only where they are touched. Never freed. */
export const reserve = (bytes: number): number =>
  mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

/** The same as u32 words. */
export const reserveWords = (count: number): Uint32Array =>
  new Uint32Array(view(reserve(count * 4), count * 4));

/** Bytes of a mapped file range that are in the page cache (mincore(2)); `address` page aligned. */
export function residentBytes(address: number, length: number): number {
  if (length === 0) return 0;
  const vector = new Uint8Array(Math.ceil(length / PAGE));
  check(mincore_(address, length, vector), 'mincore', `0x${address.toString(16)}`);
  return vector.reduce((sum, page) => sum + (page & 1), 0) * PAGE;
}
