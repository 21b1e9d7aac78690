import { existsSync, readFileSync, statSync } from 'node:fs';

/** Folder of sysfs of the block device at `path`, or of the one that a file there lies on. */
function folderOf(path: string): string {
  const { rdev, dev } = statSync(path);
  const number = rdev !== 0 ? rdev : dev;
  // makedev(3) of glibc, whose upper halves are zero for every block device of a host.
  return `/sys/dev/block/${(number >> 8) & 0xfff}:${(number & 0xff) | ((number >> 12) & 0xfff00)}`;
}

/**
 * Reads and writes that a block device has not answered yet. `path`: the device, like `/dev/loop3`, or a file on one; of
 * a file on something else there are none.
 */
export function inflight(path: string): { reads: number; writes: number } {
  const file = `${folderOf(path)}/inflight`;
  if (!existsSync(file)) return { reads: 0, writes: 0 };
  const [reads, writes] = readFileSync(file, 'latin1').trim().split(/\s+/).map(Number);
  return { reads, writes };
}

/** Of the fields of `stat` (Documentation/block/stat.rst): reads, writes, discards and flushes that were completed. */
const COMPLETED = [0, 4, 11, 15];

/** Requests that a block device has answered so far. */
export function answered(path: string): number {
  const fields = readFileSync(`${folderOf(path)}/stat`, 'latin1')
    .trim()
    .split(/\s+/);
  return COMPLETED.reduce((sum, field) => sum + Number(fields[field] ?? 0), 0);
}
