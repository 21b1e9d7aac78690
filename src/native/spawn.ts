import koffi from 'koffi';
import { SystemError } from './errno.js';
import { libc } from './libc.js';

const WNOHANG = 1;
const POSIX_SPAWN_SETSID = 0x80;
/** Larger than any posix_spawn_file_actions_t (80 bytes) and posix_spawnattr_t (336 bytes) of glibc. */
const OBJECT_BYTES = 1024;

const waitpid_ = libc.func('int waitpid(int pid, _Out_ int *status, int options)');
const exit_ = libc.func('void _exit(int status)');
const spawn_ = libc.func(
  'int posix_spawn(_Out_ int *pid, const char *path, intptr_t actions, intptr_t attributes, const char **argv, const char **envp)',
);
const actionsInit = libc.func('int posix_spawn_file_actions_init(intptr_t actions)');
const actionsDestroy = libc.func('int posix_spawn_file_actions_destroy(intptr_t actions)');
const addDup2 = libc.func('int posix_spawn_file_actions_adddup2(intptr_t actions, int from, int to)');
const attributesInit = libc.func('int posix_spawnattr_init(intptr_t attributes)');
const setFlags = libc.func('int posix_spawnattr_setflags(intptr_t attributes, short flags)');

/**
 * Starts a program in a session of its own, with `descriptors` as its 0, 1, 2, …; all others that are close-on-exec
 * end there. Its memory is not copied first, as fork(2) does: no page of ours is write protected meanwhile, and our
 * threads can fault. Returns its pid; whoever starts it must {@link reap} it.
 */
export function spawnProgram(
  path: string,
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  descriptors: readonly number[],
): number {
  const objects = Buffer.alloc(2 * OBJECT_BYTES);
  const actions = Number(koffi.address(objects));
  const attributes = actions + OBJECT_BYTES;
  actionsInit(actions);
  attributesInit(attributes);
  setFlags(attributes, POSIX_SPAWN_SETSID);
  descriptors.forEach((from, to) => addDup2(actions, from, to));
  const environment = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const pid = [0];
  const error = spawn_(pid, path, actions, attributes, [...argv, null], [...environment, null]);
  actionsDestroy(actions);
  void objects.length; // must outlive the calls
  if (error !== 0) throw new SystemError('posix_spawn', error, path);
  return pid[0];
}

/** Takes the exit of a child that has ended; false while it lives. */
export const reap = (pid: number): boolean => exitOf(pid) !== null;

/** Exit status of a child that has ended, 128 and more when a signal ended it; null while it lives. Takes it once. */
export function exitOf(pid: number): number | null {
  const status = [0];
  if (waitpid_(pid, status, WNOHANG) === 0) return null;
  const signal = status[0] & 0x7f;
  return signal === 0 ? (status[0] >> 8) & 0xff : 128 + signal;
}

/** Ends the process at once, also when a thread of it is blocked in native code, which `process.exit` would wait for. */
export function exitNow(status: number): never {
  exit_(status);
  throw new Error('_exit returned');
}
