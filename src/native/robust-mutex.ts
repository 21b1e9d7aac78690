import koffi from 'koffi';
import { constants } from 'node:os';
import { SystemError } from './errno.js';
import { libc } from './libc.js';

/** Bytes of a pthread_mutex_t: 40 on x86-64, 48 on arm64 (glibc, sysdeps/.../pthreadtypes-arch.h). */
export const ROBUST_MUTEX_BYTES = 64;
const ATTRIBUTES_BYTES = 64;
const PROCESS_SHARED = 1;
const ROBUST = 1;
/** EOWNERDEAD; the table of `node:os` does not have it. */
const OWNER_DEAD = 130;

function bind() {
  // In glibc before 2.34 the robust calls are in a library of their own, which Node has loaded.
  const from = (signature: string) => {
    try {
      return libc.func(signature);
    } catch {
      return koffi.load('libpthread.so.0').func(signature);
    }
  };
  return {
    attributes: from('int pthread_mutexattr_init(intptr_t attributes)'),
    setShared: from('int pthread_mutexattr_setpshared(intptr_t attributes, int shared)'),
    setRobust: from('int pthread_mutexattr_setrobust(intptr_t attributes, int robust)'),
    init: from('int pthread_mutex_init(intptr_t mutex, intptr_t attributes)'),
    lock: from('int pthread_mutex_lock(intptr_t mutex)'),
    tryLock: from('int pthread_mutex_trylock(intptr_t mutex)'),
    consistent: from('int pthread_mutex_consistent(intptr_t mutex)'),
  };
}

let bound: ReturnType<typeof bind> | undefined;
const pthread = (): ReturnType<typeof bind> => (bound ??= bind());

/**
 * A mutex in memory that processes share. The kernel passes it on in the moment in which the *thread* that holds it
 * ends, whatever becomes of the rest of its process (set_robust_list(2)).
 */
export class RobustMutex {
  /** `address` of ROBUST_MUTEX_BYTES. */
  constructor(private readonly address: number) {}

  /** Once, before anybody uses it. */
  init(): void {
    const attributes = Buffer.alloc(ATTRIBUTES_BYTES);
    const at = Number(koffi.address(attributes));
    const calls = pthread();
    succeed(calls.attributes(at), 'pthread_mutexattr_init');
    succeed(calls.setShared(at, PROCESS_SHARED), 'pthread_mutexattr_setpshared');
    succeed(calls.setRobust(at, ROBUST), 'pthread_mutexattr_setrobust');
    succeed(calls.init(this.address, at), 'pthread_mutex_init');
  }

  /** Blocks this thread until the mutex is its own. True when its last owner died with it. */
  lock(): boolean {
    return this.taken(pthread().lock(this.address), 'pthread_mutex_lock');
  }

  /** The same without waiting; null when somebody has it. */
  tryLock(): boolean | null {
    const result = pthread().tryLock(this.address);
    return result === constants.errno.EBUSY ? null : this.taken(result, 'pthread_mutex_trylock');
  }

  private taken(result: number, call: string): boolean {
    if (result !== OWNER_DEAD) {
      succeed(result, call);
      return false;
    }
    succeed(pthread().consistent(this.address), 'pthread_mutex_consistent');
    return true;
  }
}

/** The pthread calls return the error instead of setting errno. */
function succeed(result: number, call: string): void {
  if (result !== 0) throw new SystemError(call, result, '');
}
