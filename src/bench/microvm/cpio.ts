import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** An entry of an initramfs; `mode` has the type of the file too (S_IFREG …). */
export interface CpioEntry {
  /** Without a slash in front. */
  name: string;
  mode: number;
  data?: Uint8Array;
  /** Major and minor number of a device. */
  device?: [major: number, minor: number];
}

const S_IFDIR = 0o040000;
const S_IFREG = 0o100000;
const S_IFLNK = 0o120000;
const S_IFCHR = 0o020000;
const MAGIC = '070701';
const TRAILER = 'TRAILER!!!';

export const directory = (name: string): CpioEntry => ({ name, mode: S_IFDIR | 0o755 });
export const file = (name: string, data: Uint8Array, permissions = 0o644): CpioEntry => ({
  name,
  mode: S_IFREG | permissions,
  data,
});
export const device = (name: string, major: number, minor: number): CpioEntry => ({
  name,
  mode: S_IFCHR | 0o600,
  device: [major, minor],
});

/** Everything below `folder`, under the name `at`, in an order that does not depend on the disk. */
export function* entriesBelow(
  folder: string,
  at: string,
  keep: (name: string) => boolean = () => true,
): Generator<CpioEntry> {
  for (const child of readdirSync(folder).sort()) {
    const path = `${folder}/${child}`;
    const name = at === '' ? child : `${at}/${child}`;
    const stat = lstatSync(path);
    if (!keep(name)) continue;
    if (stat.isDirectory()) {
      yield { name, mode: S_IFDIR | (stat.mode & 0o777) };
      yield* entriesBelow(path, name, keep);
    } else if (stat.isSymbolicLink()) {
      yield { name, mode: S_IFLNK | 0o777, data: Buffer.from(readlinkSync(path)) };
    } else if (stat.isFile()) {
      yield file(name, readFileSync(path), stat.mode & 0o777);
    }
  }
}

const padded = (bytes: number): number => (bytes + 3) & ~3;

/** One archive in the format "newc" (Documentation/driver-api/early-userspace/buffer-format.rst), owned by root, without times. */
export function cpio(entries: Iterable<CpioEntry>): Buffer {
  const parts: Buffer[] = [];
  let inode = 1;
  for (const entry of [...entries, { name: TRAILER, mode: 0 }]) parts.push(...record(entry, inode++));
  return Buffer.concat(parts);
}

function record(
  { name, mode, data = new Uint8Array(), device: [major, minor] = [0, 0] }: CpioEntry,
  inode: number,
): Buffer[] {
  const fields = [inode, mode, 0, 0, 1, 0, data.length, 0, 0, major, minor, name.length + 1, 0];
  const hex = fields.map((field) => field.toString(16).padStart(8, '0')).join('');
  const head = Buffer.from(`${MAGIC}${hex}${name}\0`, 'latin1');
  return [
    Buffer.concat([head, Buffer.alloc(padded(head.length) - head.length)]),
    Buffer.concat([data, Buffer.alloc(padded(data.length) - data.length)]),
  ];
}
