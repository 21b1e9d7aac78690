import { PAGE } from '../native/libc.js';
import { SEGMENT } from './layout.js';

/** The largest block: a cluster's. */
export const MAX_BLOCK = SEGMENT / 4;

/** Blocks begin at multiples of it, so that 32 bits name one of any arena. */
export const UNIT = 16;

/**
 * Blocks of one segment are equal; the steps keep what rounding up wastes near 3 %. Above a page a segment is divided
 * by whole numbers, for what a few large blocks leave of it is much.
 */
export const CLASS_SIZES = ((): readonly number[] => {
  const sizes = [32];
  for (const [upTo, step] of [
    [512, 16],
    [1024, 32],
    [2048, 64],
    [4096, 128],
  ]) {
    for (let size = sizes[sizes.length - 1] + step; size <= upTo; size += step) sizes.push(size);
  }
  for (let blocks = 15; blocks >= 4; blocks--) sizes.push(Math.floor(SEGMENT / blocks / UNIT) * UNIT);
  return sizes;
})();

/** That of whole pages. */
export const PAGE_CLASS = CLASS_SIZES.indexOf(PAGE);

/** Class of each length up to MAX_BLOCK. */
export const classOf = Uint8Array.from({ length: MAX_BLOCK + 1 }, (_, length) =>
  CLASS_SIZES.findIndex((size) => size >= length),
);

/** Blocks that a segment of the class has. */
export const blocksOf = (sizeClass: number): number => Math.floor(SEGMENT / CLASS_SIZES[sizeClass]);

/** Bytes a length takes in the arena. */
export const blockBytes = (length: number): number => (length === 0 ? 0 : CLASS_SIZES[classOf[length]]);
