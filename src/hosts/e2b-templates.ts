import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProcFolder } from './proc-folder.js';
import { e2bVersion, type VirtualMachine } from './virtual-machines.js';

/** Template cache of the orchestrator: BUILD/cache/UUID/metadata.json (its paths_cache.go). */
const CACHE = 'orchestrator/template';
/** Templates of the first version have a folder of their own in the mount namespace of the machine. */
const FIRST_VERSION = /\/fc-envs\/v1\/[^/\s]+\/builds\/([^/\s]+)/;
const KERNEL = /\/fc-kernels\/([^/]+)\//;

interface Build {
  id: string;
  kernel: string;
  firecracker: string;
}

/**
 * Build that a sandbox was started from; null when it does not show. Its version 1 shows in its mounts. Later ones do not:
 * then it must be one of the builds that are cached here, for its pages are served from the cache, and it is the one
 * that fits when only one does. Never a guess among several: they would be compressed against a stranger.
 */
export function templateOf(machine: VirtualMachine, proc: ProcFolder, root: string): string | null {
  // The script of the shell that has started it names its files.
  const script = proc.argv(proc.parent(machine.pid)).join(' ');
  const first = FIRST_VERSION.exec(script) ?? FIRST_VERSION.exec(machine.argv.join(' '));
  if (first !== null) return first[1];
  const kernel = KERNEL.exec(script)?.[1];
  const fitting = cachedBuilds(root).filter(
    (build) => build.firecracker === e2bVersion(machine) && (kernel === undefined || build.kernel === kernel),
  );
  const ids = new Set(fitting.map(({ id }) => id));
  return ids.size === 1 ? [...ids][0] : null;
}

function cachedBuilds(root: string): Build[] {
  const folder = join(root, CACHE);
  return listed(folder).flatMap((build) =>
    listed(join(folder, build, 'cache')).flatMap((copy) =>
      metadata(join(folder, build, 'cache', copy, 'metadata.json'), build),
    ),
  );
}

/** What `metadata.json` says of a build (its template_metadata.go); nothing when it can not be read. */
function metadata(path: string, folder: string): Build[] {
  try {
    const { template } = JSON.parse(readFileSync(path, 'utf8')) as { template?: Record<string, unknown> };
    const text = (key: string): string => (typeof template?.[key] === 'string' ? template[key] : '');
    return [
      {
        id: text('build_id') || folder,
        kernel: text('kernel_version'),
        firecracker: text('firecracker_version'),
      },
    ];
  } catch {
    return [];
  }
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
