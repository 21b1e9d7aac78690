import koffi from 'koffi';

/** Compresses between addresses; 0 when the result would not fit `capacity`. */
export type Lz4 = (from: number, to: number, length: number, capacity: number) => number;

/** liblz4, which only comparisons need; null where it is not installed. */
export function loadLz4(): Lz4 | null {
  try {
    return koffi
      .load('liblz4.so.1')
      .func('int LZ4_compress_default(intptr_t from, intptr_t to, int length, int capacity)');
  } catch {
    return null;
  }
}
