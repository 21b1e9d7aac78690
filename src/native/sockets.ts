import { check } from './errno.js';
import { POLLIN } from './files.js';
import { libc } from './libc.js';

export const POLLOUT = 4;
const O_CLOEXEC = 0x80000;
const SHUT_RDWR = 2;

const poll_ = libc.func('int poll(void *fds, unsigned long count, int timeout)');
const shutdown_ = libc.func('int shutdown(int fd, int how)');
const dup3_ = libc.func('int dup3(int from, int to, int flags)');

/** Is there something to read, or nothing more to come? Does not wait. */
export function isReadable(fd: number): boolean {
  return poll_(new Int32Array([fd, POLLIN]), 1, 0) > 0;
}

/** Ends a connection for all who hold it; nothing when it has ended. */
export const shutdown = (fd: number): void => void shutdown_(fd, SHUT_RDWR);

/** Lets the descriptor `fd` stand for what `by` stands for. */
export function replaceDescriptor(fd: number, by: number): void {
  check(dup3_(by, fd, O_CLOEXEC), 'dup3', `fd ${by} to ${fd}`);
}
