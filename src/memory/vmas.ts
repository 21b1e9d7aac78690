import { readFileSync } from 'node:fs';

export const VMA_KINDS = ['heap', 'stack', 'anonymous', 'private-file', 'shared', 'special'] as const;
export type VmaKind = (typeof VMA_KINDS)[number];

/** One mapping of a process. Addresses are bytes; `end` is exclusive. */
export interface Vma {
  start: number;
  end: number;
  /** As the kernel prints them, e.g. `rw-p`. */
  permissions: string;
  path: string;
  /** Of the file it maps, `0` for none, and where in the file it begins, bytes. */
  inode: string;
  offset: number;
  kind: VmaKind;
  /** `kind:path:ordinal`, the same in every process of one program whatever the address space randomisation. */
  key: string;
  /** Why its pages stay untouched, or null. */
  leftOut: string | null;
  /** Its flags were read too, so that `leftOut` is the whole truth. */
  checked: boolean;
}

const HEADER = /^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+) *(.*)$/;

/** VmFlags of proc(5) that make a mapping none of our business. */
const FLAG_REASONS: Readonly<Record<string, string>> = {
  ht: 'huge TLB pages can not be swapped',
  lo: 'locked in memory',
  pf: 'maps page frames of a device',
  io: 'maps memory of a device',
  um: 'userfaultfd handles its missing pages',
  uw: 'userfaultfd protects its pages',
  ui: 'userfaultfd handles its minor faults',
};

function kindOf(permissions: string, inode: string, path: string): VmaKind {
  if (permissions[3] === 's') return 'shared';
  if (path === '[heap]') return 'heap';
  if (path === '[stack]') return 'stack';
  if (path.startsWith('[anon:')) return 'anonymous';
  if (path.startsWith('[')) return 'special';
  return inode !== '0' || path.startsWith('/') ? 'private-file' : 'anonymous';
}

function reasonToLeaveOut(kind: VmaKind, permissions: string, path: string): string | null {
  if (kind === 'shared') return 'shared mapping';
  if (kind === 'special') return 'mapping of the kernel';
  if (permissions[2] === 'x') return 'executable';
  // Restoring maps pages by reading them, which a mapping without read permission refuses.
  if (permissions[0] !== 'r') return 'not readable';
  if (path === '/anon_hugepage') return FLAG_REASONS.ht;
  return null;
}

/** Gives each VMA its key while they come by in address order. */
class KeyMaker {
  private readonly ordinals = new Map<string, number>();
  private previous = { end: -1, kind: 'special' as VmaKind, name: '' };

  next(start: number, end: number, kind: VmaKind, path: string): string {
    const { previous } = this;
    // Memory right behind a library's file mapping is its .bss: the library names it better than its rank does.
    const behindFile = kind === 'anonymous' && path === '' && previous.end === start && previous.name !== '';
    const name = behindFile ? previous.name : path;
    this.previous = { end, kind, name: kind === 'private-file' || behindFile ? name : '' };
    const group = `${kind}:${name}`;
    const ordinal = this.ordinals.get(group) ?? 0;
    this.ordinals.set(group, ordinal + 1);
    return `${group}:${ordinal}`;
  }
}

/** Parses `/proc/PID/maps` or `/proc/PID/smaps`; only the latter shows locked, huge and userfaultfd mappings. */
export function parseVmas(text: string): Vma[] {
  const vmas: Vma[] = [];
  const keys = new KeyMaker();
  for (const line of text.split('\n')) {
    if (line.startsWith('VmFlags:')) {
      const vma = vmas[vmas.length - 1];
      const flag = line
        .slice(8)
        .trim()
        .split(' ')
        .find((name) => name in FLAG_REASONS);
      if (vma) vma.checked = true;
      if (vma && flag) vma.leftOut ??= FLAG_REASONS[flag];
      continue;
    }
    const match = HEADER.exec(line);
    if (!match) continue;
    const [, from, to, permissions, offset, inode, rawPath] = match;
    const start = parseInt(from, 16);
    const end = parseInt(to, 16);
    const path = rawPath.replace(/ \(deleted\)$/, '');
    const kind = kindOf(permissions, inode, path);
    const key = keys.next(start, end, kind, path);
    vmas.push({
      start,
      end,
      permissions,
      path,
      inode,
      offset: parseInt(offset, 16),
      kind,
      key,
      leftOut: reasonToLeaveOut(kind, permissions, path),
      checked: false,
    });
  }
  return vmas;
}

/** Kind that a key names. */
export const kindOfKey = (key: string): string => key.slice(0, key.indexOf(':'));

/**
 * VMAs of a process in address order; empty when it is gone. `flags` reads smaps, which walks the page tables
 * (5 ms for a Python of 90 MiB): needed before acting on pages, not for looking at them.
 */
export function readVmas(pid: number, options: { flags: boolean }): Vma[] {
  try {
    return parseVmas(readFileSync(`/proc/${pid}/${options.flags ? 'smaps' : 'maps'}`, 'utf8'));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ESRCH') return [];
    throw error;
  }
}
