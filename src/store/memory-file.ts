import { SystemError } from '../native/errno.js';
import { close, O_CLOEXEC, O_RDWR, O_TMPFILE, openAt } from '../native/files.js';
import { memfdCreate } from '../native/memory.js';
import { fsconfigCreate, fsconfigFlag, fsconfigString, fsmount, fsopen } from '../native/system.js';

/**
 * A file in memory without a name: on a tmpfs of its own that does not swap and is mounted nowhere (Linux 6.4), else a
 * memfd. Of a memfd only the locked mapping of the pager keeps the pages in memory: when the pager dies, they can be sent
 * to the very device they serve.
 */
export function createMemoryFile(name: string): number {
  try {
    return withoutSwap();
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return memfdCreate(name);
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
