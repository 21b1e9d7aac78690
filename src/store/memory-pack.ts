import { closeSync, linkSync, readSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { AgentZipError } from '../errors.js';
import { dropCache } from '../native/files.js';
import { PAGE } from '../native/libc.js';
import { isIntact, openMemorySource, type MemorySource } from './memory-source.js';
import { readPackRegions, whileWriting, writePack, type PackMeta, type PackPage } from './pack.js';

/** Bytes read at a time: what is made of them takes some milliseconds, in which nothing else is done. */
const READ_BYTES = 1 << 20;

/** Key of the region that a memory file is: its template address is the offset in it. */
export const memoryRegionKey = (inode: string): string => `memory:${inode}`;

/**
 * A name of our own for the file, so that its host can remove its: what rests on a template must find it as long as it does.
 * Null where a file can not have names in both places: then it is used under the name it was given by.
 */
function linked(from: string, to: string): string | null {
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
    return to;
  } catch (error) {
    // Another file system, or one mounted elsewhere; a file system without links; a host that forbids them.
    if (['EXDEV', 'EPERM', 'EMLINK'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    return whileWriting(to, () => {
      throw error;
    });
  }
}

async function* pagesOf(source: MemorySource): AsyncGenerator<PackPage> {
  const file = await open(source.path, 'r');
  try {
    const buffer = new Uint8Array(READ_BYTES);
    for (let at = 0; at < source.bytes;) {
      const { bytesRead } = await file.read(buffer, 0, Math.min(READ_BYTES, source.bytes - at), at);
      if (bytesRead < PAGE) return; // it has been cut off: found out when all is done
      for (let offset = 0; offset + PAGE <= bytesRead; offset += PAGE) {
        yield { templatePage: (at + offset) / PAGE, bytes: buffer.subarray(offset, offset + PAGE) };
      }
      at += bytesRead - (bytesRead % PAGE);
    }
  } finally {
    // What machines have mapped stays.
    dropCache(file.fd);
    await file.close();
  }
}

/**
 * Makes a memory file a template: writes hashes and sketches of its pages into a pack, which leaves the pages where they are.
 * AZ_PACK_INVALID when it is not root's alone to write, or changes meanwhile; AZ_PACK_WRITE.
 */
export async function writeMemoryPack(path: string, memoryPath: string, meta: PackMeta): Promise<void> {
  // Refused before it gets a name of ours.
  closeSync(openMemorySource(memoryPath).fd);
  const own = linked(memoryPath, memoryLinkOf(path));
  const { fd, source } = openMemorySource(own ?? memoryPath);
  try {
    const regions = [{ key: memoryRegionKey(source.inode), start: 0, pages: source.bytes / PAGE }];
    const pages = {
      keep: ({ templatePage }: PackPage): number => templatePage + 1,
      read: (page: number, into: Uint8Array): void => void readSync(fd, into, 0, PAGE, (page - 1) * PAGE),
    };
    await writePack(path, regions, pagesOf(source), meta, { pages, memory: source });
    if (isIntact(source)) return;
    throw new AgentZipError('AZ_PACK_INVALID', {
      path: memoryPath,
      reason: 'it changes while it is made a template',
    });
  } catch (error) {
    removeMemoryPack(path);
    throw error;
  } finally {
    closeSync(fd);
  }
}

/** Is the pack at `path` one that was made of this memory file as it is now, for the same owner? Then it need not be made again. */
export function isMemoryPackOf(path: string, memoryPath: string, meta: PackMeta): boolean {
  try {
    const { memory, meta: made } = readPackRegions(path);
    if (memory === undefined || JSON.stringify(made) !== JSON.stringify(meta) || !isIntact(memory))
      return false;
    closeSync(openMemorySource(memoryPath, memory).fd);
    return true;
  } catch (error) {
    // Damaged, or of another file: then it is of no use.
    if (error instanceof AgentZipError) return false;
    throw error;
  }
}

/** Name of ours for the memory file of a pack. */
const memoryLinkOf = (path: string): string => `${path}.mem`;

/** Removes a pack that was written here, and our name for its memory file; the file is its host's. */
export function removeMemoryPack(path: string): void {
  rmSync(path, { force: true });
  rmSync(memoryLinkOf(path), { force: true });
}
