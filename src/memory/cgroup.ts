import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, normalize } from 'node:path';

export interface CgroupMount {
  version: 1 | 2;
  /** Mount point, e.g. `/sys/fs/cgroup/memory`. */
  path: string;
  /** Holds the memory controller. */
  memory: boolean;
}

/** Characters that mountinfo writes as octal escapes: blank, tab, newline, backslash. */
const unescape = (field: string): string =>
  field.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));

/** Cgroup mounts in the text of a mountinfo. `hasMemory` says whether a v2 mount lists the memory controller. */
export function parseCgroupMounts(mountinfo: string, hasMemory: (path: string) => boolean): CgroupMount[] {
  const mounts: CgroupMount[] = [];
  for (const line of mountinfo.split('\n')) {
    const [left, right] = line.split(' - ');
    if (right === undefined) continue;
    const [type, , superOptions] = right.split(' ');
    const path = unescape(left.split(' ')[4]);
    if (type === 'cgroup')
      mounts.push({ version: 1, path, memory: superOptions.split(',').includes('memory') });
    if (type === 'cgroup2') mounts.push({ version: 2, path, memory: hasMemory(path) });
  }
  return mounts;
}

function listsMemory(path: string): boolean {
  try {
    return readFileSync(`${path}/cgroup.controllers`, 'utf8').split(/\s+/).includes('memory');
  } catch {
    return false;
  }
}

export const cgroupMounts = (): CgroupMount[] =>
  parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'), listsMemory);

/**
 * Folder of a cgroup named by its path below the memory controller's mount, or by its absolute path below any cgroup
 * mount. Null when there is none; a path can not climb out of the mount.
 */
export function resolveCgroup(name: string, mounts: readonly CgroupMount[] = cgroupMounts()): string | null {
  const below = (mount: CgroupMount, path: string): boolean =>
    path.startsWith(`${mount.path}/`) && existsSync(path) && statSync(path).isDirectory();
  if (isAbsolute(name)) {
    const path = normalize(name).replace(/\/$/, '');
    if (mounts.some((mount) => below(mount, path))) return path;
  }
  for (const mount of mounts) {
    const path = normalize(join(mount.path, name)).replace(/\/$/, '');
    if (mount.memory && below(mount, path)) return path;
  }
  return null;
}

/** What the kernel calls a cgroup: the inode of its folder. Null when it is gone, or not one of the memory controller's. */
export function memoryCgroupId(name: string | undefined): bigint | null {
  const mounts = cgroupMounts();
  const folder = name === undefined ? null : resolveCgroup(name, mounts);
  if (folder === null || !mounts.some(({ memory, path }) => memory && folder.startsWith(`${path}/`)))
    return null;
  return statSync(folder, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}

/** Pids in a cgroup and in those below it, each once; empty when it is gone. */
export function cgroupPids(folder: string): number[] {
  const pids = new Set<number>();
  const queue = [folder];
  for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
    try {
      for (const line of readFileSync(`${at}/cgroup.procs`, 'latin1').split('\n'))
        if (line) pids.add(Number(line));
      for (const entry of readdirSync(at, { withFileTypes: true })) {
        if (entry.isDirectory()) queue.push(`${at}/${entry.name}`);
      }
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? '';
      // EOPNOTSUPP: a threaded cgroup of v2; its processes are listed by the threaded domain above it.
      if (!['ENOENT', 'ENODEV', 'EOPNOTSUPP'].includes(code)) throw error;
    }
  }
  // Processes of another pid namespace are shown as 0.
  pids.delete(0);
  return [...pids];
}

/**
 * May what is in a cgroup be swapped? Not where it or one above it has memory.swap.max 0. Version 1 has no such limit: memory
 * and swap are counted together there, so that swapping needs no further room.
 */
export function maySwap(folder: string, mounts: readonly CgroupMount[] = cgroupMounts()): boolean {
  const mount = mounts.find(({ version, path }) => version === 2 && folder.startsWith(`${path}/`));
  if (mount === undefined) return true;
  for (let at = folder; at.length > mount.path.length; at = dirname(at)) {
    if (readText(`${at}/memory.swap.max`)?.trim() === '0') return false;
  }
  return true;
}

const readText = (path: string): string | null => {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null;
  }
};

/**
 * Folder of the memory cgroup of a process. Null when it is gone, in the root, or in one that is not mounted here; where version 2
 * has no memory controller and version 1 is not mounted, that of version 2 all the same.
 */
export function processCgroup(pid: number, mounts: readonly CgroupMount[] = cgroupMounts()): string | null {
  const lines = (readText(`/proc/${pid}/cgroup`) ?? '')
    .split('\n')
    .map((line) => /^\d+:([^:]*):(.*)$/.exec(line));
  const pathOf = (wanted: (controllers: string[]) => boolean): string | undefined =>
    lines.find((line) => line !== null && wanted(line[1].split(',')))?.[2];
  const folderOf = (version: 1 | 2, path: string | undefined): string | null => {
    const mount = mounts.filter((candidate) => candidate.version === version);
    const best = mount.find(({ memory }) => memory) ?? (version === 2 ? mount[0] : undefined);
    return best === undefined || path === undefined || path === '/'
      ? null
      : resolveCgroup(best.path + path, [best]);
  };
  return (
    folderOf(
      1,
      pathOf((controllers) => controllers.includes('memory')),
    ) ??
    folderOf(
      2,
      pathOf(([first]) => first === ''),
    )
  );
}
