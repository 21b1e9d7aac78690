import { AgentZipError } from '../errors.js';

/** What a host says a sandbox consists of. Exactly one of the two. */
export interface ProcessSpec {
  pids?: readonly number[];
  cgroup?: string;
  /**
   * Its processes may be in user namespaces below ours. Only for who has found them in our own process table: a pid that
   * somebody in such a namespace names is another process out here.
   */
  nested?: boolean;
}

/** The part of the kernel's process table that adapters need; the caller supplies it. */
export interface ProcessTable {
  /** Those of `roots` that live, and their descendants. */
  tree(roots: readonly number[]): number[];
  exists(pid: number): boolean;
  userNamespace(pid: number): string | null;
  /** Folder of a cgroup, or null. */
  cgroupFolder(name: string): string | null;
  cgroupPids(folder: string): number[];
}

/** Where the processes of one sandbox are found. */
export interface Membership {
  /** The processes at registration. */
  first: number[];
  /**
   * Processes that belong to it now. `known` are those found before that still live: they count even when their
   * parent has ended, and a root whose pid was taken over by a stranger does not.
   */
  pids(known: readonly number[]): number[];
}

/** Processes of ours, which must never wait for a page of their own device. */
export interface OwnProcesses {
  pids: readonly number[];
  userNamespace: string;
}

/** The initial user namespace, above all others (PROC_USER_INIT_INO). */
const INITIAL = 'user:[4026531837]';

/** `nested`: see {@link ProcessSpec}. Out of the initial namespace it can not be told which are below ours: none then. */
function refuseForbidden(
  table: ProcessTable,
  pids: readonly number[],
  own: OwnProcesses,
  nested: boolean,
): void {
  const below = nested && own.userNamespace === INITIAL;
  for (const pid of pids) {
    if (own.pids.includes(pid)) throw new AgentZipError('AZ_OWN_PROCESS', { pid });
    const namespace = table.userNamespace(pid);
    if (namespace !== null && namespace !== own.userNamespace && !below) {
      throw new AgentZipError('AZ_FOREIGN_NAMESPACE', { pid });
    }
  }
}

/**
 * A host without an adapter of its own: sandboxes are process trees or cgroups that somebody names. Throws
 * AZ_NO_SUCH_PROCESS, AZ_NO_SUCH_CGROUP, AZ_OWN_PROCESS, AZ_FOREIGN_NAMESPACE, AZ_BAD_REQUEST.
 */
export function findProcesses(spec: ProcessSpec, table: ProcessTable, own: OwnProcesses): Membership {
  const { pids, cgroup, nested = false } = spec;
  if ((pids === undefined) === (cgroup === undefined) || pids?.length === 0) {
    throw new AgentZipError('AZ_BAD_REQUEST', { what: 'give exactly one of pids (not empty) and cgroup' });
  }
  if (pids !== undefined) {
    const missing = pids.find((pid) => !table.exists(pid));
    if (missing !== undefined) throw new AgentZipError('AZ_NO_SUCH_PROCESS', { pid: missing });
    const first = table.tree(pids);
    refuseForbidden(table, first, own, nested);
    return { first, pids: (known) => table.tree(known) };
  }
  const name = cgroup as string;
  const folder = table.cgroupFolder(name);
  const first = folder === null ? [] : table.cgroupPids(folder);
  if (folder === null || first.length === 0) throw new AgentZipError('AZ_NO_SUCH_CGROUP', { cgroup: name });
  refuseForbidden(table, first, own, nested);
  return { first, pids: () => table.cgroupPids(folder) };
}
