import { check, errno, SystemError } from './errno.js';
import { libc } from './libc.js';

/** swapon(2) flags: discard freed clusters while running. */
export const SWAP_FLAG_DISCARD_PAGES = 0x10000 | 0x40000;
export const SWAP_FLAG_PREFER = 0x8000;
export const MNT_DETACH = 2;

const mount_ = libc.func(
  'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)',
);
const umount2_ = libc.func('int umount2(const char *target, int flags)');
const swapon_ = libc.func('int swapon(const char *path, int flags)');
const swapoff_ = libc.func('int swapoff(const char *path)');

export function mount(source: string, target: string, type: string, flags: number, data: string): void {
  check(mount_(source, target, type, flags, data), 'mount', target);
}

export function umount(target: string, flags = 0): void {
  check(umount2_(target, flags), 'umount', target);
}

/** On a worker thread: reads of the device come from the same process. */
const later = (call: string, fn: typeof swapon_, target: string, ...args: unknown[]): Promise<void> =>
  new Promise((resolve, reject) => {
    fn.async(target, ...args, (error: unknown, result: number) => {
      const code = errno();
      if (error) reject(error);
      else if (result < 0) reject(new SystemError(call, code, target));
      else resolve();
    });
  });

export const swapon = (path: string, flags: number): Promise<void> => later('swapon', swapon_, path, flags);
/** Pages everything on the device back in; ENOMEM when it does not fit. May take minutes. */
export const swapoff = (path: string): Promise<void> => later('swapoff', swapoff_, path);
