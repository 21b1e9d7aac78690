import { closeSync, fstatSync, openSync, statSync, type BigIntStats } from 'node:fs';
import { AgentZipError } from '../errors.js';
import { PAGE } from '../native/libc.js';

/**
 * The memory file of a snapshot, whose pages are a template as they lie there. A changed file is another template: bases would
 * no longer be what deltas were made against.
 */
export interface MemorySource {
  path: string;
  inode: string;
  bytes: number;
  /** When it was last written, ns after 1970. */
  mtimeNs: string;
}

/** Page numbers in references have 24 bits. */
const MAX_BYTES = (2 ** 24 - 1) * PAGE;
const WRITABLE_BY_OTHERS = 0o022n;

const sourceOf = (path: string, { ino, size, mtimeNs }: BigIntStats): MemorySource => ({
  path,
  inode: String(ino),
  bytes: Number(size),
  mtimeNs: String(mtimeNs),
});

/** Why a file can be no template, or null. Who could write to it could change what others' memory is put together from. */
function flawOf(stats: BigIntStats): string | null {
  if (!stats.isFile()) return 'it is no regular file';
  if (stats.uid !== 0n || (stats.mode & WRITABLE_BY_OTHERS) !== 0n)
    return 'it belongs to, or can be written by, others than root';
  if (stats.size === 0n || stats.size % BigInt(PAGE) !== 0n) return 'it is no whole number of pages';
  if (stats.size > BigInt(MAX_BYTES)) return 'it has more than 64 GiB';
  return null;
}

/** Opens a memory file to read. AZ_PACK_INVALID, also when it is not the one that is `expected`. */
export function openMemorySource(
  path: string,
  expected?: MemorySource,
): { fd: number; source: MemorySource } {
  const refuse = (reason: string): AgentZipError => new AgentZipError('AZ_PACK_INVALID', { path, reason });
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    throw refuse((error as Error).message);
  }
  const stats = fstatSync(fd, { bigint: true });
  const source = sourceOf(path, stats);
  const flaw = flawOf(stats) ?? (expected !== undefined && !same(source, expected) ? 'it has changed' : null);
  if (flaw === null) return { fd, source };
  closeSync(fd);
  throw refuse(flaw);
}

/** Is the file still there as it was? */
export function isIntact(source: MemorySource): boolean {
  const stats = statSync(source.path, { bigint: true, throwIfNoEntry: false });
  return stats !== undefined && flawOf(stats) === null && same(sourceOf(source.path, stats), source);
}

const same = (a: MemorySource, b: MemorySource): boolean =>
  a.inode === b.inode && a.bytes === b.bytes && a.mtimeNs === b.mtimeNs;
