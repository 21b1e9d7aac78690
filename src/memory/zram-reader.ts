import { open, type FileHandle } from 'node:fs/promises';
import { constants } from 'node:fs';
import { PAGE } from '../native/libc.js';
import { MAP_ANONYMOUS, MAP_PRIVATE, mmap, munmap, PROT_READ, PROT_WRITE, view } from '../native/memory.js';

/** Pages that are read at a time. */
const MOST_PAGES = 64;

/**
 * Reads pages of a zram device past the page cache, so that each that was written back is read from the device behind it. What
 * they hold is nobody's business here.
 */
export class ZramReader {
  private constructor(
    private readonly file: FileHandle,
    private readonly address: number,
  ) {}

  /** The device can not be taken away while it is open. */
  static async open(device: string): Promise<ZramReader> {
    const file = await open(device, constants.O_RDONLY | constants.O_DIRECT);
    return new ZramReader(
      file,
      mmap(MOST_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1),
    );
  }

  /** `slots`: ascending. Those that lie together are read together. False: some could not be read. */
  async read(slots: readonly number[]): Promise<boolean> {
    const buffer = new Uint8Array(view(this.address, MOST_PAGES * PAGE));
    let complete = true;
    for (let at = 0; at < slots.length;) {
      let end = at + 1;
      while (end < slots.length && slots[end] === slots[end - 1] + 1 && end - at < MOST_PAGES) end++;
      const bytes = (end - at) * PAGE;
      const read = await this.file.read(buffer, 0, bytes, slots[at] * PAGE).catch(() => null);
      complete &&= read?.bytesRead === bytes;
      at = end;
    }
    return complete;
  }

  async close(): Promise<void> {
    await this.file.close();
    munmap(this.address, MOST_PAGES * PAGE);
  }
}
