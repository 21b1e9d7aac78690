import { isGuestFile } from '../memory/memory-files.js';
import type { Hazard } from './adapter.js';

/** The file that guest memory is a private mapping of: a snapshot's, and so the template of what runs on it. */
export interface MemoryFile {
  /** As the process that maps it calls it; see ProcFolder.fileOf. */
  path: string;
  /** Device as `major:minor` in hexadecimal, as maps print it, and inode. */
  device: string;
  inode: string;
}

/** What a virtual machine monitor's mappings say of the memory of its guest. */
export interface GuestMemory {
  kind: 'private' | 'memory_file' | 'memfd';
  bytes: number;
  /** Largest page among its mappings. */
  pageKiB: number;
  hazards: Hazard[];
  file: MemoryFile | null;
}

interface Mapping {
  permissions: string;
  device: string;
  inode: string;
  path: string;
  sizeKiB: number;
  pageKiB: number;
  flags: Set<string>;
}

const HEADER = /^[0-9a-f]+-[0-9a-f]+ (\S{4}) \S+ (\S+) (\d+) *(.*)$/;
const FIELD = /^(Size|KernelPageSize|VmFlags): *(.*?)(?: kB)?$/;

/** Smaller mappings are the monitor's own: heaps of allocators, stacks, queues of devices. */
const GUEST_KIB = 16 << 10;

/** VmFlags of proc(5) that say what may not be done. */
const FLAGS: readonly [flags: readonly string[], hazard: Hazard][] = [
  [['ht'], 'hugetlb'],
  [['um', 'uw', 'ui'], 'userfaultfd'],
  [['lo', 'pf', 'io'], 'locked'],
];

function parse(smaps: string): Mapping[] {
  const mappings: Mapping[] = [];
  for (const line of smaps.split('\n')) {
    const header = HEADER.exec(line);
    if (header !== null) {
      const [, permissions, device, inode, path] = header;
      mappings.push({
        ...{ permissions, device, inode, path: path.replace(/ \(deleted\)$/, '') },
        ...{ sizeKiB: 0, pageKiB: 4, flags: new Set<string>() },
      });
      continue;
    }
    const [, field, value] = FIELD.exec(line) ?? [];
    const last = mappings.at(-1);
    if (last === undefined) continue;
    if (field === 'Size') last.sizeKiB = Number(value);
    if (field === 'KernelPageSize') last.pageKiB = Number(value);
    if (field === 'VmFlags') last.flags = new Set(value.trim().split(/\s+/));
  }
  return mappings;
}

/** Guest memory is written to and not run: the program and its libraries are none. */
function holdsGuest({ permissions, path, sizeKiB }: Mapping): boolean {
  if (isGuestFile(path)) return true;
  return permissions.startsWith('rw-') && sizeKiB >= GUEST_KIB && path !== '[heap]' && path !== '[stack]';
}

function hazardsOf({ permissions, path, pageKiB, flags }: Mapping): Hazard[] {
  const hazards = FLAGS.filter(([names]) => names.some((name) => flags.has(name))).map(
    ([, hazard]) => hazard,
  );
  if ((pageKiB > 4 || path === '/anon_hugepage') && !hazards.includes('hugetlb')) hazards.push('hugetlb');
  if (permissions[3] === 's') hazards.push('shared_memfd');
  return hazards;
}

const KINDS: readonly GuestMemory['kind'][] = ['memfd', 'memory_file', 'private'];

function kindOf({ permissions, path, inode }: Mapping): GuestMemory['kind'] {
  if (permissions[3] === 's' || path.startsWith('/memfd:')) return 'memfd';
  return inode === '0' || path === '/anon_hugepage' ? 'private' : 'memory_file';
}

/**
 * The guest memory among the mappings of a monitor, by the text of its smaps; null when it has none yet. Hazards are those
 * of all its mappings together: one that may not be touched is enough.
 */
export function guestMemory(smaps: string): GuestMemory | null {
  const guest = parse(smaps).filter(holdsGuest);
  if (guest.length === 0) return null;
  // A file says what it is; anonymous memory beside it may be anything.
  const kind = KINDS.find((name) => guest.some((mapping) => kindOf(mapping) === name)) ?? 'private';
  const { path, device, inode } = guest.find((mapping) => kindOf(mapping) === kind) ?? guest[0];
  return {
    kind,
    bytes: guest.reduce((sum, { sizeKiB }) => sum + sizeKiB, 0) * 1024,
    pageKiB: Math.max(...guest.map(({ pageKiB }) => pageKiB)),
    hazards: [...new Set(guest.flatMap(hazardsOf))],
    file: kind === 'memory_file' ? { path, device, inode } : null,
  };
}

/** What an adapter knows besides of how its platform pauses. */
export interface Snapshots {
  /** Its snapshots take a page for written only when it is present: one that is swapped is left out. */
  loseSwapped: boolean;
  /** It asks for `pre-pause` before it pauses, and waits for the answer. */
  prePause: boolean;
}

/** `byCgroup`: memory that is mapped shared goes out by the cgroup, which is the sandbox's own. */
export type Ways = Snapshots & { byCgroup?: boolean };

export interface Verdict {
  mode: 'reclaim' | 'observe';
  why: string;
  hazards: Hazard[];
}

/** In the order in which they forbid. */
const FORBIDDING: readonly [hazard: Hazard, why: string][] = [
  ['hugetlb', 'guest memory is in huge TLB pages, which the kernel can not swap'],
  [
    'userfaultfd',
    'a userfaultfd handler serves guest memory, and may lose pages that are taken from under it',
  ],
  ['locked', 'guest memory is locked, or a device maps it'],
  [
    'shared_memfd',
    'guest memory is a memory file mapped shared, which can not be paged out through one process',
  ],
  ['no_swap', 'its cgroup may not swap'],
];

const forbids = (hazards: readonly Hazard[]): string =>
  FORBIDDING.filter(([hazard]) => hazards.includes(hazard))
    .map(([, why]) => why)
    .join('; ');

/** Hazards win: whatever the platform and its settings say, memory that must not be touched is only observed. */
export function judge(
  memory: GuestMemory | null,
  { loseSwapped, prePause, byCgroup = false }: Ways,
): Verdict {
  if (memory === null) return { mode: 'observe', why: 'it has no guest memory yet', hazards: [] };
  const hazards: Hazard[] = [...memory.hazards];
  // What can not be swapped can not be lost by it.
  if (loseSwapped && !hazards.includes('hugetlb')) hazards.push('swap_loses_snapshot');
  const forbidden = forbids(hazards.filter((hazard) => !(byCgroup && hazard === 'shared_memfd')));
  if (forbidden !== '') return { mode: 'observe', why: forbidden, hazards };
  if (loseSwapped && !prePause) {
    return {
      mode: 'observe',
      why: 'its snapshots leave out pages that are swapped, and its platform is not known to ask for pre-pause',
      hazards,
    };
  }
  const what = {
    private: 'private pages',
    memory_file: 'a private mapping of its memory file',
    memfd: 'a memory file that goes out by memory.reclaim of its cgroup, in pages',
  }[memory.kind];
  const hook = loseSwapped ? '; its platform asks for pre-pause, which puts all of it back' : '';
  return { mode: 'reclaim', why: `guest memory is ${what} of ${memory.pageKiB} KiB${hook}`, hazards };
}
