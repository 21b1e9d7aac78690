import { randomFillSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { constants } from 'node:os';
import { AgentZipError } from '../../errors.js';
import { SystemError } from '../../native/errno.js';
import { PAGE } from '../../native/libc.js';
import { SWAP_FLAG_DISCARD_PAGES, SWAP_FLAG_PREFER, swapon } from '../../native/system.js';

/** Everything that the kernel pages out goes to the swap area of the highest priority first. */
const PRIORITY_MAX = 32767;

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

/** Is a block device swap now? */
export const isSwap = (device: string): boolean => readFileSync('/proc/swaps', 'utf8').includes(`${device} `);

/**
 * Makes a block device of `pages` pages a swap area and turns it on. AZ_SWAP_BUSY, with nothing written to it, when
 * somebody else did so already.
 */
export async function activateSwap(device: string, pages: number): Promise<void> {
  const busy = new AgentZipError('AZ_SWAP_BUSY', { device });
  if (isSwap(device)) throw busy;
  await format(device, pages);
  try {
    await swapon(device, SWAP_FLAG_DISCARD_PAGES | SWAP_FLAG_PREFER | PRIORITY_MAX);
  } catch (error) {
    throw error instanceof SystemError && error.errno === constants.errno.EBUSY ? busy : error;
  }
}

async function format(device: string, pages: number): Promise<void> {
  const file = await open(device, 'r+');
  try {
    await file.write(swapHeader(pages), 0, PAGE, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}
