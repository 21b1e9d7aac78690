import { open, type FileHandle } from 'node:fs/promises';
import { nextData } from '../native/files.js';
import { readVmas, type Vma } from './vmas.js';

/** Memory files in which monitors keep guests: Firecracker's, gVisor's, Cloud Hypervisor's. */
const GUEST = /^\/memfd:(guest_mem|runsc-memory|ch_ram)\b/;
/** Read at a time, so that whoever else wants the file's lock or a thread gets it. */
const STEP_BYTES = 1 << 20;

/** Does a mapping of that path hold guest memory, as proc(5) prints it? */
export const isGuestFile = (path: string): boolean => GUEST.test(path);

/** One mapping of each memory file of guests that these processes map. */
function filesOf(pids: readonly number[]): { pid: number; vma: Vma }[] {
  const files = new Map<string, { pid: number; vma: Vma }>();
  for (const pid of pids) {
    for (const vma of readVmas(pid, { flags: false }))
      if (isGuestFile(vma.path)) files.set(vma.inode, { pid, vma });
  }
  return [...files.values()];
}

/**
 * Reads all of the memory files of guests that these processes map, which brings back what is swapped of them: no page table
 * says what that is. Holes stay holes. Ask only for programs of the platform. Returns the bytes read; what has ended is passed over.
 */
export async function readMemoryFiles(pids: readonly number[]): Promise<number> {
  const scratch = Buffer.alloc(STEP_BYTES);
  let bytes = 0;
  for (const { pid, vma } of filesOf(pids)) {
    const range = [vma.start, vma.end].map((address) => address.toString(16)).join('-');
    const file = await open(`/proc/${pid}/map_files/${range}`, 'r').catch(unlessGone);
    if (file === null) continue;
    try {
      bytes += await readData(file, scratch);
    } finally {
      await file.close();
    }
  }
  return bytes;
}

async function readData(file: FileHandle, scratch: Buffer): Promise<number> {
  let bytes = 0;
  for (let part = nextData(file.fd, 0); part !== null; part = nextData(file.fd, part.end)) {
    for (let at = part.start; at < part.end;) {
      const { bytesRead } = await file.read(scratch, 0, Math.min(STEP_BYTES, part.end - at), at);
      // It has become shorter.
      if (bytesRead === 0) return bytes;
      at += bytesRead;
      bytes += bytesRead;
    }
  }
  return bytes;
}

function unlessGone(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ESRCH') return null;
  throw error;
}
