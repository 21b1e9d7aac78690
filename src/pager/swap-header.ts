import { randomFillSync } from 'node:crypto';
import { open } from 'node:fs/promises';
import { PAGE } from '../native/libc.js';

/** First page of a swap area, version 1 (what mkswap(8) writes; include/linux/swap.h, union swap_header). */
function swapHeader(pages: number): Uint8Array {
  const page = Buffer.alloc(PAGE);
  page.writeUInt32LE(1, 1024); // version
  page.writeUInt32LE(pages - 1, 1028); // last page
  randomFillSync(page, 1036, 16); // UUID
  page.write('agentzip', 1052, 'latin1'); // label
  page.write('SWAPSPACE2', PAGE - 10, 'latin1');
  return page;
}

/** Makes a block device of `pages` pages ready for swapon. */
export async function formatSwap(device: string, pages: number): Promise<void> {
  const file = await open(device, 'r+');
  try {
    await file.write(swapHeader(pages), 0, PAGE, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}
