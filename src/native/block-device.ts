import { existsSync, readFileSync, statSync } from 'node:fs';

/**
 * Reads and writes that a block device has not answered yet. `path`: the device, like `/dev/loop3`, or a file on one; of
 * a file on something else there are none.
 */
export function inflight(path: string): { reads: number; writes: number } {
  const { rdev, dev } = statSync(path);
  const number = rdev !== 0 ? rdev : dev;
  // makedev(3) of glibc, whose upper halves are zero for every block device of a host.
  const file = `/sys/dev/block/${(number >> 8) & 0xfff}:${(number & 0xff) | ((number >> 12) & 0xfff00)}/inflight`;
  if (!existsSync(file)) return { reads: 0, writes: 0 };
  const [reads, writes] = readFileSync(file, 'latin1').trim().split(/\s+/).map(Number);
  return { reads, writes };
}
