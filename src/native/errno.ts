import { constants } from 'node:os';
import koffi from 'koffi';

const names = new Map(Object.entries(constants.errno).map(([name, value]) => [value, name]));

/** A system call that failed: which, with what errno, on what. */
export class SystemError extends Error {
  override readonly name = 'SystemError';
  /** Symbolic errno, like `ENOENT`. */
  readonly code: string;

  constructor(
    readonly call: string,
    readonly errno: number,
    readonly target: string,
  ) {
    const code = names.get(errno) ?? `errno ${errno}`;
    super(`${call} ${target}: ${code}`);
    this.code = code;
  }
}

/** errno of the last failed native call of this thread. */
export const errno = (): number => koffi.errno();

/** `result`, or a {@link SystemError} when it is negative. Call it right after the native call. */
export function check(result: number, call: string, target: string | number): number {
  if (result < 0) throw new SystemError(call, koffi.errno(), String(target));
  return result;
}
