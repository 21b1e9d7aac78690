import { existsSync, statSync, watch, type FSWatcher } from 'node:fs';
import { cgroupMounts, cgroupPids, maySwap, type CgroupMount } from '../memory/cgroup.js';
import type { FoundSandbox, HostAdapter, HostListener } from './adapter.js';
import { CgroupGlobs } from './cgroup-globs.js';
import { foundId } from './names.js';

export interface CgroupOptions {
  mode: 'reclaim' | 'observe';
  /** Globs of paths below the memory cgroup mount. */
  include: readonly string[];
  exclude: readonly string[];
  /** Its named groups `template` and `tenant` are taken out of a path. */
  pattern: string | null;
  /** For paths that do not say it. */
  template: string | null;
  tenant: string | null;
}

/** Folders watched for new cgroups; those beyond are found at intervals. */
const MOST_WATCHED = 256;

/** A cgroup is made first and gets its processes then: those that are empty are looked at again so soon, and so often. */
const EMPTY_MS = 250;
const EMPTY_LOOKS = 8;

/** What can swap, first where there is memory control: on a hybrid host that is version 1. */
const memoryMounts = (): CgroupMount[] => {
  const mounts = cgroupMounts();
  const memory = mounts.filter((mount) => mount.memory);
  return memory.length > 0 ? memory : mounts.filter(({ version }) => version === 2);
};

/** A host without a platform that could be asked: its sandboxes are cgroups that are known by their names. */
export class CgroupAdapter implements HostAdapter {
  readonly name = 'cgroup';
  private readonly globs: CgroupGlobs;
  private readonly pattern: RegExp | null;
  private watched = new Map<string, FSWatcher>();
  private listener: HostListener | null = null;
  /** Folder of an empty cgroup → looks at it so far. */
  private empty = new Map<string, number>();

  constructor(
    private readonly options: CgroupOptions,
    /** Where to look; replaced by tests. */
    private readonly mounts: () => CgroupMount[] = memoryMounts,
  ) {
    this.globs = new CgroupGlobs(options.include, options.exclude);
    this.pattern = options.pattern === null ? null : new RegExp(options.pattern, 'u');
  }

  async find(): Promise<FoundSandbox[]> {
    const found: FoundSandbox[] = [];
    const parents = new Set<string>();
    const mounts = this.mounts();
    const empty = new Map<string, number>();
    for (const mount of mounts) {
      const { matches, looked } = this.globs.walk(mount.path);
      looked.forEach((folder) => parents.add(folder));
      for (const path of matches) {
        const folder = `${mount.path}/${path}`;
        // An empty one is no sandbox yet, or no longer.
        if (cgroupPids(folder).length > 0) found.push(this.describe(mount.path, path, mounts));
        else empty.set(folder, (this.empty.get(folder) ?? 0) + 1);
      }
    }
    this.empty = empty;
    if (this.listener !== null) this.watch(parents);
    if ([...empty.values()].some((looks) => looks <= EMPTY_LOOKS)) this.lookSoon();
    return found;
  }

  private lookSoon(): void {
    setTimeout(() => this.listener?.changed(), EMPTY_MS).unref();
  }

  follow(listener: HostListener): () => void {
    this.listener = listener;
    // Which folders to watch is known from the next look on.
    listener.changed();
    return () => {
      this.listener = null;
      this.watch(new Set());
    };
  }

  private describe(mount: string, path: string, mounts: readonly CgroupMount[]): FoundSandbox {
    const { mode, template, tenant } = this.options;
    const folder = `${mount}/${path}`;
    const said = this.pattern?.exec(path)?.groups ?? {};
    const swaps = maySwap(folder, mounts);
    return {
      id: foundId(this.name, path),
      cgroup: folder,
      template: said.template ?? template ?? undefined,
      tenant: said.tenant ?? tenant ?? undefined,
      mode: swaps ? mode : 'observe',
      why: whyOf(mode, swaps, path),
      hazards: swaps ? [] : ['no_swap'],
    };
  }

  /** Watches these folders for cgroups that come and go, and no others. */
  private watch(folders: ReadonlySet<string>): void {
    for (const [folder, watcher] of this.watched) {
      if (folders.has(folder) && existsSync(folder)) continue;
      watcher.close();
      this.watched.delete(folder);
    }
    for (const folder of folders) {
      if (this.watched.size >= MOST_WATCHED) return;
      if (this.watched.has(folder) || !statSync(folder, { throwIfNoEntry: false })?.isDirectory()) continue;
      this.watchOne(folder);
    }
  }

  private watchOne(folder: string): void {
    try {
      // inotify tells of mkdir and rmdir in a cgroup file system, not of processes that move: those are found at intervals.
      const watcher = watch(folder, { persistent: false }, (event) => {
        if (event === 'rename') this.listener?.changed();
      });
      watcher.on('error', () => this.watched.delete(folder));
      this.watched.set(folder, watcher);
    } catch {
      // Gone since, or no inotify watch is left: then it is looked at at intervals alone.
    }
  }
}

function whyOf(mode: CgroupOptions['mode'], swaps: boolean, path: string): string {
  if (!swaps) return 'memory.swap.max is 0 here or above: nothing of it can go out';
  if (mode === 'observe') return 'hosts.cgroup.mode in the policy is observe';
  return `the cgroup ${path} matches hosts.cgroup.include`;
}
