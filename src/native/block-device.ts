import { readFileSync, statSync } from 'node:fs';

/** Folder of sysfs of the block device at `path`, or of the one that a file there lies on; null when nothing is there. */
function folderOf(path: string): string | null {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return null;
  const number = found.rdev !== 0 ? found.rdev : found.dev;
  // makedev(3) of glibc, whose upper halves are zero for every block device of a host.
  return `/sys/dev/block/${(number >> 8) & 0xfff}:${(number & 0xff) | ((number >> 12) & 0xfff00)}`;
}

/**
 * Reads and writes that a block device has not answered yet. `path`: the device, like `/dev/loop3`, or a file on one; of
 * a file on something else, and of a device that has gone, there are none.
 */
export function inflight(path: string): { reads: number; writes: number } {
  const [reads = 0, writes = 0] = fieldsOf(path, 'inflight');
  return { reads, writes };
}

/** Of the fields of `stat` (Documentation/block/stat.rst): reads, writes, discards and flushes that were completed. */
const COMPLETED = [0, 4, 11, 15];

/** Requests that a block device has answered so far; 0 when it has gone. */
export function answered(path: string): number {
  const fields = fieldsOf(path, 'stat');
  return COMPLETED.reduce((sum, field) => sum + (fields[field] ?? 0), 0);
}

/** Numbers in a file of the device's folder; none when there is no such device. It may go between two looks. */
function fieldsOf(path: string, name: string): number[] {
  const folder = folderOf(path);
  try {
    if (folder === null) return [];
    return readFileSync(`${folder}/${name}`, 'latin1').trim().split(/\s+/).map(Number);
  } catch (error) {
    if (['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}
