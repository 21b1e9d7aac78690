import { writeFileSync } from 'node:fs';
import koffi from 'koffi';
import { check, errno, SystemError } from './errno.js';
import { libc } from './libc.js';

export const MADV_WILLNEED = 3;
export const MADV_PAGEOUT = 21;
export const PR_SET_SECCOMP = 22;
export const PR_SET_IO_FLUSHER = 57;
const PRIO_PROCESS = 0;

const SYS = {
  process_madvise: 440,
  pidfd_open: 434,
  pidfd_getfd: 438,
  pidfd_send_signal: 424,
  gettid: 186,
} as const;

// syscall(2) is variadic; on x86-64 and arm64 integer arguments of a variadic call sit in the same registers.
const syscall = libc.func(
  'intptr_t syscall(intptr_t n, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)',
);
const readv_ = libc.func(
  'intptr_t process_vm_readv(int pid, const void *local, unsigned long nLocal, const void *remote, unsigned long nRemote, unsigned long flags)',
);
const prctl_ = libc.func('int prctl(int option, intptr_t a, intptr_t b, intptr_t c, intptr_t d)');
const clockGettime_ = libc.func('int clock_gettime(int clock, void *time)');
const setpriority_ = libc.func('int setpriority(int which, unsigned int who, int priority)');
const schedSetscheduler_ = libc.func('int sched_setscheduler(int pid, int policy, const void *parameters)');
const execve_ = libc.func('int execve(const char *path, const char **argv, const char **envp)');

/** A range of another process's memory; address and length in bytes. */
export interface Range {
  address: number;
  length: number;
}

/** struct iovec for each range; at most IOV_MAX (1024). */
function vector(ranges: readonly Range[]): BigUint64Array {
  const iov = new BigUint64Array(ranges.length * 2);
  ranges.forEach((range, i) => {
    iov[2 * i] = BigInt(range.address);
    iov[2 * i + 1] = BigInt(range.length);
  });
  return iov;
}

/** Descriptor of a process (pidfd_open(2)); ESRCH when there is none. */
export const pidfdOpen = (pid: number): number =>
  check(syscall(SYS.pidfd_open, pid, 0, 0, 0, 0, 0), 'pidfd_open', `pid ${pid}`);

/** A copy, close-on-exec, of another process's descriptor (pidfd_getfd(2), Linux 5.6). */
export const pidfdGetfd = (pidfd: number, fd: number): number =>
  check(syscall(SYS.pidfd_getfd, pidfd, fd, 0, 0, 0, 0), 'pidfd_getfd', `fd ${fd}`);

const SIGKILL = 9;

/** Ends the process of a pidfd, whoever has its number by now (pidfd_send_signal(2)); ESRCH when it has ended. */
export const pidfdKill = (pidfd: number): number =>
  check(syscall(SYS.pidfd_send_signal, pidfd, SIGKILL, 0, 0, 0, 0), 'pidfd_send_signal', 'SIGKILL');

/**
 * process_madvise(2) on a worker thread. Resolves to the bytes advised; says nothing of what was really paged
 * (see the ledger). ESRCH when the process is gone, EINVAL for a range that can not take the advice.
 */
export function processMadvise(pidfd: number, ranges: readonly Range[], advice: number): Promise<number> {
  const iov = vector(ranges);
  const address = Number(koffi.address(iov));
  return new Promise((resolve, reject) => {
    syscall.async(
      SYS.process_madvise,
      pidfd,
      address,
      ranges.length,
      advice,
      0,
      0,
      (error: unknown, result: number) => {
        const code = errno();
        void iov.length; // the vector must outlive the call
        if (error) reject(error);
        else if (result < 0) reject(new SystemError('process_madvise', code, `advice ${advice}`));
        else resolve(result);
      },
    );
  });
}

/** process_madvise(2) on the calling thread, whose processor time it then is; otherwise like {@link processMadvise}. */
export function processMadviseHere(pidfd: number, ranges: readonly Range[], advice: number): number {
  const iov = vector(ranges);
  const address = Number(koffi.address(iov));
  const result = syscall(SYS.process_madvise, pidfd, address, ranges.length, advice, 0, 0);
  const code = errno();
  void iov.length; // the vector must outlive the call
  if (result < 0) throw new SystemError('process_madvise', code, `advice ${advice}`);
  return result;
}

/**
 * Copies from another process into `into` (process_vm_readv(2)), on a worker thread. Resolves to the bytes copied,
 * short at the first range that can not be read; pages that were swapped out come back in.
 */
export function processRead(pid: number, ranges: readonly Range[], into: Uint8Array): Promise<number> {
  const local = vector([{ address: Number(koffi.address(into)), length: into.byteLength }]);
  const remote = vector(ranges);
  return new Promise((resolve, reject) => {
    readv_.async(pid, local, 1, remote, ranges.length, 0, (error: unknown, result: number) => {
      const code = errno();
      void into.length;
      if (error) reject(error);
      else if (result < 0) reject(new SystemError('process_vm_readv', code, `pid ${pid}`));
      else resolve(result);
    });
  });
}

export const prctl = (option: number, argument: number, argument2 = 0): number =>
  check(prctl_(option, argument, argument2, 0, 0), 'prctl', `option ${option}`);

/** Thread id of the calling thread (a worker thread has its own). */
export const gettid = (): number => syscall(SYS.gettid, 0, 0, 0, 0, 0, 0);

const CLOCK_PROCESS_CPUTIME_ID = 2;
const CLOCK_THREAD_CPUTIME_ID = 3;
const timespec = new BigInt64Array(2);

function clockMs(clock: number): number {
  clockGettime_(clock, timespec);
  return Number(timespec[0]) * 1e3 + Number(timespec[1]) / 1e6;
}

/** CPU time of the calling thread, ms. */
export const threadCpuMs = (): number => clockMs(CLOCK_THREAD_CPUTIME_ID);

/** The CPU-time clock of a process by its pid (include/linux/posix-timers.h): scheduler time of all its threads. */
const CPUCLOCK_SCHED = 2;

/** CPU time of a process so far in ns, of ended threads too; one system call. Null when there is no such process. */
export function processCpuNs(pid: number): number | null {
  if (clockGettime_((~pid << 3) | CPUCLOCK_SCHED, timespec) !== 0) return null;
  return Number(timespec[0]) * 1e9 + Number(timespec[1]);
}

/** CPU time of all threads of this process, ms. */
export const processCpuMs = (): number => clockMs(CLOCK_PROCESS_CPUTIME_ID);

/** Nice value of one thread, -20 to 19. */
export function setThreadPriority(tid: number, nice: number): void {
  check(setpriority_(PRIO_PROCESS, tid, nice), 'setpriority', `thread ${tid}`);
}

const SCHED_OTHER = 0;
const SCHED_RR = 2;
const SCHED_IDLE = 5;

/**
 * How a thread shares the processor: by a nice value; only when nothing else wants it (SCHED_IDLE); or before all that
 * is not real-time too (SCHED_RR at the lowest priority).
 */
export function schedule(tid: number, share: number | 'idle' | 'realtime'): void {
  const policy = { idle: SCHED_IDLE, realtime: SCHED_RR }[share] ?? SCHED_OTHER;
  const priority = new Int32Array([share === 'realtime' ? 1 : 0]);
  check(schedSetscheduler_(tid, policy, priority), 'sched_setscheduler', `thread ${tid}`);
  if (typeof share === 'number') setThreadPriority(tid, share);
}

/** Names the calling thread, as `top -H` shows it; at most 15 bytes. */
export const nameThread = (name: string): void => writeFileSync(`/proc/self/task/${gettid()}/comm`, name);

/** Replaces this program; returns only by throwing. */
export function execve(path: string, argv: readonly string[], env: Readonly<Record<string, string>>): never {
  execve_(path, [...argv, null], [...Object.entries(env).map(([k, v]) => `${k}=${v}`), null]);
  throw new SystemError('execve', errno(), path);
}
