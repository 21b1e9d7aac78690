import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { ReadText, Requirement } from './requirement.js';

const KDAMONDS = '/sys/kernel/mm/damon/admin/kdamonds';

/** How the pager names itself to the NBD driver. */
const NBD_BACKEND = 'agentzip:';

const entries = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : []);

/** What else on the host moves memory: none of it forbids AgentZip, each changes what it can do. */
export function swapAndReclaim(read: ReadText, tier: 'direct' | 'zswap' | 'zram' = 'direct'): Requirement[] {
  const others = tier === 'zswap' ? [] : [zswap(read)];
  return [otherSwap(read), ...others, ksm(read), damon(read), hugePages(read)];
}

function otherSwap(read: ReadText): Requirement {
  const lines = (read('/proc/swaps') ?? '').split('\n').slice(1);
  const all = lines.map((line) => line.split(/\s+/)).filter(([name]) => name !== '');
  const names = all.filter(([name, , , , priority]) => !isOurs(read, name, priority)).map(([name]) => name);
  return {
    id: 'swap',
    level: 'optional',
    ok: names.length === 0,
    found: names.join(', ') || (all.length === 0 ? 'none' : "AgentZip's alone"),
    needed: 'no other swap: what goes there is not compressed by AgentZip',
    remedy: 'swapoff it, or give it a lower priority',
  };
}

/**
 * True for an NBD device that a pager has made, and for a loop device over a file that the pager serves: the mount's source is
 * its name. A ublk device does not say whose it is; nobody else gives one the priority of ours.
 */
function isOurs(read: ReadText, device: string, priority: string): boolean {
  if (device.startsWith('/dev/ublkb')) return priority === '32767';
  if (read(`/sys/block/${basename(device)}/backend`)?.startsWith(NBD_BACKEND) === true) return true;
  const file = read(`/sys/block/${basename(device)}/loop/backing_file`);
  const mounts = (read('/proc/self/mountinfo') ?? '').split('\n');
  return (
    file !== null &&
    mounts.some((line) => line.split(' ')[4] === dirname(file) && / - fuse\S* agentzip /.test(line))
  );
}

function zswap(read: ReadText): Requirement {
  const enabled = read('/sys/module/zswap/parameters/enabled');
  return {
    id: 'zswap',
    level: 'optional',
    ok: enabled !== 'Y',
    found: enabled === null ? 'not built in' : enabled === 'Y' ? 'on' : 'off',
    needed: 'off: it keeps pages of sandboxes without a cgroup v2 of their own',
    remedy: 'echo N > /sys/module/zswap/parameters/enabled',
  };
}

function ksm(read: ReadText): Requirement {
  const run = read('/sys/kernel/mm/ksm/run');
  return {
    id: 'KSM',
    level: 'optional',
    ok: run !== '1',
    found: run === null ? 'not built in' : run === '1' ? 'running' : 'off',
    needed: 'off: merged pages can not be paged out, and it merges across tenants',
    remedy: 'echo 2 > /sys/kernel/mm/ksm/run',
  };
}

function damon(read: ReadText): Requirement {
  const paging = entries(KDAMONDS)
    .filter((name) => /^\d+$/.test(name) && read(`${KDAMONDS}/${name}/state`) === 'on')
    .filter((name) => pagesOut(read, `${KDAMONDS}/${name}/contexts`));
  return {
    id: 'DAMON',
    level: 'optional',
    ok: paging.length === 0,
    found: paging.length === 0 ? 'does not page out' : `kdamond ${paging.join(', ')} pages out idle memory`,
    needed: 'no paging by DAMON: it also sends pages of processes that are no sandboxes',
    remedy: `echo off > ${KDAMONDS}/${paging[0] ?? 'N'}/state, or accept foreign pages in the store`,
  };
}

const pagesOut = (read: ReadText, contexts: string): boolean =>
  entries(contexts).some((context) =>
    entries(`${contexts}/${context}/schemes`).some(
      (scheme) => read(`${contexts}/${context}/schemes/${scheme}/action`) === 'pageout',
    ),
  );

function hugePages(read: ReadText): Requirement {
  const text = read('/sys/kernel/mm/transparent_hugepage/enabled');
  const mode = /\[(\w+)\]/.exec(text ?? '')?.[1] ?? 'not built in';
  return {
    id: 'transparent huge pages',
    level: 'optional',
    ok: mode !== 'always',
    found: mode,
    needed: 'madvise or never: huge pages must be split before they can be paged out',
    remedy: 'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled',
  };
}
