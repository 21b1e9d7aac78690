import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const ROOT = '/sys/fs/cgroup';
const GROUP = `${ROOT}/agentzip-pager`;
const LIMIT = `${GROUP}/memory.swap.max`;

/** On cgroup v2 a process is only safe from its own swap when it starts in a cgroup without swap. */
export function joinSwaplessCgroup(): void {
  if (!existsSync(`${ROOT}/cgroup.subtree_control`)) return;
  if (!readFileSync(`${ROOT}/cgroup.controllers`, 'utf8').split(/\s/).includes('memory')) return;
  writeFileSync(`${ROOT}/cgroup.subtree_control`, '+memory');
  mkdirSync(GROUP, { recursive: true });
  writeFileSync(LIMIT, '0');
  writeFileSync(`${GROUP}/cgroup.procs`, '0');
}

/** Does `step` with swap permitted in that cgroup: for the pages that shall prove the device. All others are locked. */
export function withSwapPermitted<T>(step: () => T): T {
  const inside =
    existsSync(LIMIT) && /^0::\/agentzip-pager$/m.test(readFileSync('/proc/self/cgroup', 'utf8'));
  if (!inside) return step();
  writeFileSync(LIMIT, 'max');
  try {
    return step();
  } finally {
    writeFileSync(LIMIT, '0');
  }
}
