import { writeFileSync } from 'node:fs';
import { setInheritable } from '../../native/files.js';
import { execve, PR_SET_IO_FLUSHER, prctl } from '../../native/process.js';
import { pagerCommand } from './program.js';
import { allowLockedHeap } from './seccomp.js';
import { joinSwaplessCgroup } from '../swap/swap-cgroup.js';

/**
 * First program of the pager's process: sets what must be set before Node's threads exist, then becomes the pager.
 * Everything here survives exec. What the host does not permit is said once, and the pager runs without it.
 */
function attempt(what: string, consequence: string, step: () => void): void {
  try {
    step();
  } catch (error) {
    process.stderr.write(
      `agentzip-pager: ${what} not permitted (${(error as Error).message}): ${consequence}\n`,
    );
  }
}

attempt('PR_SET_IO_FLUSHER', 'under memory pressure the pager may wait for other devices', () =>
  prctl(PR_SET_IO_FLUSHER, 1),
);
attempt('oom_score_adj -1000', 'the pager can be chosen by the OOM killer', () =>
  writeFileSync('/proc/self/oom_score_adj', '-1000'),
);
attempt('a cgroup without swap', 'the pager relies on locked memory alone', joinSwaplessCgroup);
allowLockedHeap();
for (const fd of [0, 1, 2]) setInheritable(fd, true); // libuv marks them close-on-exec
const environment = { ...process.env, MALLOC_ARENA_MAX: '1', MALLOC_TRIM_THRESHOLD_: String(2 ** 40) };
execve(
  process.execPath,
  pagerCommand(...process.argv.slice(2)),
  Object.fromEntries(
    Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined),
  ),
);
