import { constants } from 'node:os';
import { check, errno } from './errno.js';
import { libc } from './libc.js';

export const O_RDONLY = 0;
export const O_RDWR = 2;
export const O_CREAT = 0o100;
export const O_NONBLOCK = 0x800;
export const O_CLOEXEC = 0x80000;
/** O_TMPFILE with the O_DIRECTORY it includes, which has another value on arm64 (asm/fcntl.h). */
export const O_TMPFILE = 0x400000 | (process.arch === 'arm64' ? 0x4000 : 0x10000);
export const POLLIN = 1;
const F_SETFD = 2;
const { ENXIO } = constants.errno;
const FALLOC_PUNCH_HOLE_KEEP_SIZE = 3;

const open_ = libc.func('int open(const char *path, int flags, int mode)');
const openat_ = libc.func('int openat(int folder, const char *path, int flags, int mode)');
const close_ = libc.func('int close(int fd)');
const fcntl_ = libc.func('int fcntl(int fd, int command, long argument)');
const ftruncate_ = libc.func('int ftruncate(int fd, int64_t length)');
const fallocate_ = libc.func('int fallocate(int fd, int mode, int64_t offset, int64_t length)');
const ioctl_ = libc.func('int ioctl(int fd, unsigned long request, intptr_t argument)');
const lseek_ = libc.func('int64_t lseek(int fd, int64_t offset, int whence)');
const eventfd_ = libc.func('int eventfd(unsigned int value, int flags)');
const fadvise_ = libc.func('int posix_fadvise(int fd, int64_t offset, int64_t length, int advice)');
const flock_ = libc.func('int flock(int fd, int operation)');

/** read(2) and write(2) on addresses. They return -1 and leave errno, so that hot loops need no exception. */
export const read: (fd: number, address: number, length: number) => number = libc.func(
  'intptr_t read(int fd, intptr_t address, size_t length)',
);
export const write: (fd: number, address: number, length: number) => number = libc.func(
  'intptr_t write(int fd, intptr_t address, size_t length)',
);
/** pread(2) and pwrite(2), likewise. */
export const readAt: (fd: number, address: number, length: number, offset: number) => number = libc.func(
  'intptr_t pread(int fd, intptr_t address, size_t length, int64_t offset)',
);
export const writeAt: (fd: number, address: number, length: number, offset: number) => number = libc.func(
  'intptr_t pwrite(int fd, intptr_t address, size_t length, int64_t offset)',
);
/** poll(2); `fds` is the address of `count` pollfd structures (8 bytes each: fd, events, revents). */
export const poll: (fds: number, count: number, timeoutMs: number) => number = libc.func(
  'int poll(intptr_t fds, unsigned long count, int timeout)',
);

export const open = (path: string, flags: number, mode = 0): number =>
  check(open_(path, flags, mode), 'open', path);

export const openAt = (folder: number, path: string, flags: number, mode = 0): number =>
  check(openat_(folder, path, flags, mode), 'openat', path);

export function close(fd: number): void {
  check(close_(fd), 'close', `fd ${fd}`);
}

export const ioctl = (fd: number, request: number, argument: number, what: string): number =>
  check(ioctl_(fd, request, argument), 'ioctl', what);

export function ftruncate(fd: number, length: number): void {
  check(ftruncate_(fd, length), 'ftruncate', `fd ${fd} to ${length}`);
}

/** Gives the pages of a range of a memory file back to the kernel; they read as zeros afterwards. */
export function punchHole(fd: number, offset: number, length: number): void {
  check(fallocate_(fd, FALLOC_PUNCH_HOLE_KEEP_SIZE, offset, length), 'fallocate', `fd ${fd} at ${offset}`);
}

/**
 * Next part of a file from `offset` on that is no hole, bytes; null: there is none. In a memory file what is swapped is data
 * (mm/filemap.c folio_seek_hole_data).
 */
export function nextData(fd: number, offset: number): { start: number; end: number } | null {
  const [SEEK_DATA, SEEK_HOLE] = [3, 4];
  const start = Number(lseek_(fd, offset, SEEK_DATA));
  if (start < 0 && errno() === ENXIO) return null;
  check(start, 'lseek', `fd ${fd}`);
  return { start, end: check(Number(lseek_(fd, start, SEEK_HOLE)), 'lseek', `fd ${fd}`) };
}

/** Lets a descriptor survive exec (or not). */
export function setInheritable(fd: number, inheritable: boolean): void {
  check(fcntl_(fd, F_SETFD, inheritable ? 0 : 1), 'fcntl', `fd ${fd}`);
}

/** A non-blocking, close-on-exec eventfd. */
export const eventfd = (): number => check(eventfd_(0, O_NONBLOCK | O_CLOEXEC), 'eventfd', '');

/** Takes an exclusive lock on an open file without waiting; false when another process holds it. */
export function tryLock(fd: number): boolean {
  return flock_(fd, 2 | 4) === 0;
}

/** Does another process hold the lock of the file at `path`? False when there is no such file. */
export function isLocked(path: string): boolean {
  let fd: number;
  try {
    fd = open(path, O_RDONLY | O_CLOEXEC);
  } catch {
    return false;
  }
  const free = tryLock(fd);
  close(fd);
  return !free;
}

/** Drops a file's clean pages from the page cache. */
export function dropCache(fd: number): void {
  fadvise_(fd, 0, 0, 4);
}
