import { close } from './files.js';
import { check, errno, SystemError } from './errno.js';
import { libc } from './libc.js';

const EPOLL_CLOEXEC = 0x80000;
const EPOLL_CTL_ADD = 1;
const EPOLLIN = 1;
const EPOLLET = 2 ** 31;
const EINTR = 4;
/** struct epoll_event: u32 events, u64 data; packed on x86-64 alone. */
const EVENT_BYTES = 16;

const create_ = libc.func('int epoll_create1(int flags)');
const control_ = libc.func('int epoll_ctl(int epoll, int operation, int fd, void *event)');
const wait_ = libc.func('int epoll_wait(int epoll, void *events, int count, int timeout)');

/** An epoll instance that waits on a thread of libuv's pool, so that the event loop goes on meanwhile. */
export class Epoll {
  private readonly fd = check(create_(EPOLL_CLOEXEC), 'epoll_create1', '');
  private readonly events = new Uint8Array(EVENT_BYTES);

  /** Once: one wait ends for each time the descriptor wakes its waiters; else as long as it is readable. */
  add(fd: number, { once }: { once: boolean }): void {
    const event = new Uint32Array(EVENT_BYTES / 4);
    event[0] = once ? EPOLLIN + EPOLLET : EPOLLIN;
    check(control_(this.fd, EPOLL_CTL_ADD, fd, event), 'epoll_ctl', `fd ${fd}`);
  }

  /** Settles when one of the descriptors is ready. One wait at a time; the process lives on meanwhile. */
  wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      wait_.async(this.fd, this.events, 1, -1, (error: unknown, ready: number) => {
        const code = errno();
        if (error) reject(error);
        else if (ready < 0 && code !== EINTR) reject(new SystemError('epoll_wait', code, ''));
        else resolve();
      });
    });
  }

  /** Not while a wait goes on. */
  close(): void {
    close(this.fd);
  }
}
