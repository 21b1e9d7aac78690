import { check } from './errno.js';
import { O_CLOEXEC, POLLIN } from './files.js';
import { libc } from './libc.js';

export const POLLOUT = 4;
export const AF_UNIX = 1;
export const SOCK_DGRAM = 2;
export const SOCK_RAW = 3;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0x800;
const SOCK_CLOEXEC = 0x80000;
const SHUT_RDWR = 2;

const socket_ = libc.func('int socket(int domain, int type, int protocol)');
const socketpair_ = libc.func('int socketpair(int domain, int type, int protocol, _Out_ int *pair)');
const poll_ = libc.func('int poll(void *fds, unsigned long count, int timeout)');
const shutdown_ = libc.func('int shutdown(int fd, int how)');
const dup3_ = libc.func('int dup3(int from, int to, int flags)');

/** A close-on-exec socket. `what`: for the error's text. */
export const socket = (domain: number, type: number, protocol: number, what: string): number =>
  check(socket_(domain, type | SOCK_CLOEXEC, protocol), 'socket', what);

/** Two connected, non-blocking, close-on-exec stream sockets. */
export function socketPair(): [number, number] {
  const pair = [0, 0];
  check(socketpair_(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 'socketpair', '');
  return [pair[0], pair[1]];
}

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
