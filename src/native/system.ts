import { check, errno, SystemError } from './errno.js';
import { libc } from './libc.js';
import { reserve, view } from './memory.js';

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

const sysinfo_ = libc.func('int sysinfo(intptr_t info)');
const SYSINFO = { bytes: 112, freeRam: 40, unit: 104 };

/** Asks how much of the machine's memory is free, and nothing of the kernel's memory to be told it (sysinfo(2)). */
export class FreeRam {
  private readonly address = reserve(SYSINFO.bytes);
  private readonly info = new DataView(view(this.address, SYSINFO.bytes));

  /** Bytes. */
  read(): number {
    check(sysinfo_(this.address), 'sysinfo', '');
    const { info } = this;
    return Number(info.getBigUint64(SYSINFO.freeRam, true)) * info.getUint32(SYSINFO.unit, true);
  }
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

// The mount calls of Linux 5.2, by number: the same on x86-64 and arm64.
const SYS = { fsopen: 430, fsconfig: 431, fsmount: 432 } as const;
const FSOPEN_CLOEXEC = 1;
const FSMOUNT_CLOEXEC = 1;
const FSCONFIG = { flag: 0, string: 1, create: 6 } as const;
const fsopen_ = libc.func('syscall', 'intptr_t', ['intptr_t', 'str', 'intptr_t']);
const fsconfig_ = libc.func('syscall', 'intptr_t', [
  'intptr_t',
  'intptr_t',
  'intptr_t',
  'str',
  'str',
  'intptr_t',
]);
const fsmount_ = libc.func('syscall', 'intptr_t', ['intptr_t', 'intptr_t', 'intptr_t', 'intptr_t']);

/** Context to make a file system of a type in; see fsopen(2). */
export const fsopen = (type: string): number =>
  check(fsopen_(SYS.fsopen, type, FSOPEN_CLOEXEC), 'fsopen', type);

function fsconfig(context: number, command: number, key: string | null, value: string | null): void {
  check(fsconfig_(SYS.fsconfig, context, command, key, value, 0), 'fsconfig', key ?? 'create');
}

export const fsconfigFlag = (context: number, key: string): void =>
  fsconfig(context, FSCONFIG.flag, key, null);
export const fsconfigString = (context: number, key: string, value: string): void =>
  fsconfig(context, FSCONFIG.string, key, value);
export const fsconfigCreate = (context: number): void => fsconfig(context, FSCONFIG.create, null, null);
/** Descriptor of a mount that is nowhere in the tree; it goes with the last file open in it. */
export const fsmount = (context: number): number =>
  check(fsmount_(SYS.fsmount, context, FSMOUNT_CLOEXEC, 0), 'fsmount', '');
