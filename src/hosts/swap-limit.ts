import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Does a limit of cgroup v2, its own or of one above, keep all of a cgroup's memory from being swapped? */
export function mayNotSwap(root: string, cgroup: string): boolean {
  const mount = join(root, 'sys/fs/cgroup');
  for (let at = join(mount, cgroup); at.startsWith(`${mount}/`); at = dirname(at)) {
    try {
      if (readFileSync(join(at, 'memory.swap.max'), 'utf8').trim() === '0') return true;
    } catch (error) {
      // v1, the root, or a controller that is not enabled there: no limit.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return false;
}
