import { SystemError } from '../native/errno.js';
import { close, O_CLOEXEC, O_RDWR, O_TMPFILE, openAt } from '../native/files.js';
import { memfdCreate } from '../native/memory.js';
import { fsconfigCreate, fsconfigFlag, fsconfigString, fsmount, fsopen } from '../native/system.js';

/** A store's memory file. */
export interface MemoryFile {
  fd: number;
  /**
   * The kernel never swaps it, whether a living process has it locked or not. Else only the locked mapping of the
   * pager keeps it in memory: when the pager dies, its pages can be sent to the very device they serve.
   */
  unswappable: boolean;
}

/**
 * A file in memory without a name: on a tmpfs of its own that does not swap and is mounted nowhere (Linux 6.4), else a
 * memfd.
 */
export function createMemoryFile(name: string): MemoryFile {
  try {
    return { fd: withoutSwap(), unswappable: true };
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return { fd: memfdCreate(name), unswappable: false };
  }
}

function withoutSwap(): number {
  const context = fsopen('tmpfs');
  try {
    fsconfigFlag(context, 'noswap');
    fsconfigString(context, 'size', '0'); // no limit: the store has its own
    fsconfigString(context, 'mode', '0700');
    fsconfigCreate(context);
    const mount = fsmount(context);
    try {
      return openAt(mount, '.', O_TMPFILE | O_RDWR | O_CLOEXEC, 0o600);
    } finally {
      close(mount); // the open file keeps it
    }
  } finally {
    close(context);
  }
}
