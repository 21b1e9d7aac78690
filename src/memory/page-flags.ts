import { closeSync, openSync, readSync } from 'node:fs';

/** Bits of a page frame's flags (include/uapi/linux/kernel-page-flags.h): of the low word, then of the high one. */
export const KPF = {
  SWAP_CACHE: 1 << 13,
  COMPOUND_HEAD: 1 << 15,
  COMPOUND_TAIL: 1 << 16,
  KSM: 1 << 21,
} as const;
/**
 * Of the high word. "Mapped to disk" for a file's page; on an anonymous one the kernel uses the same bit since 5.19 for
 * "no other process can have it, neither mapped nor by a swap entry" (PG_anon_exclusive). Never set before.
 */
export const KPF_HIGH = { ANON_EXCLUSIVE: 1 << 2 } as const;

const COMPOUND = KPF.COMPOUND_HEAD | KPF.COMPOUND_TAIL;

/** Has no other process the page, neither mapped nor by a swap entry? Of a large page nothing is said: its flags are those of its first part. */
export const isExclusive = (low: number, high: number): boolean =>
  (high & KPF_HIGH.ANON_EXCLUSIVE) !== 0 && (low & COMPOUND) === 0;

/**
 * Is it a page that KSM has merged? Its bit alone does not say so: Linux 6.12 sets it for every anonymous page. KSM has none that
 * is exclusive, and none that is large.
 */
export const isMerged = (low: number, high: number): boolean =>
  (low & KPF.KSM) !== 0 && (low & COMPOUND) === 0 && !isExclusive(low, high);

/** Entries read past unwanted ones: a read costs as much as some 60 entries more (measured). */
const GAP = 64;
const WINDOW = 16_384;
/** A frame's number and its place in the list share one double: 2^33 frames are 32 TiB, 2^20 places 4 GiB. */
const PLACES = 2 ** 20;

let buffer: Uint32Array | undefined;

/**
 * Reads `/proc/kpageflags` for the page frames given, in order of their numbers. `visit` gets the index in `frames` and
 * the low and high word of the flags; a frame that is none is passed over. Some 0.8 µs a frame of a scattered process.
 */
export function readPageFlags(
  frames: readonly number[],
  visit: (index: number, low: number, high: number) => void,
): void {
  buffer ??= new Uint32Array(2 * WINDOW);
  const fd = openSync('/proc/kpageflags', 'r');
  try {
    for (let at = 0; at < frames.length; at += PLACES) readSlice(fd, buffer, frames, at, visit);
  } finally {
    closeSync(fd);
  }
}

function readSlice(
  fd: number,
  words: Uint32Array,
  frames: readonly number[],
  from: number,
  visit: (index: number, low: number, high: number) => void,
): void {
  const count = Math.min(PLACES, frames.length - from);
  const sorted = new Float64Array(count);
  for (let i = 0; i < count; i++) sorted[i] = frames[from + i] * PLACES + i;
  sorted.sort();
  const frameAt = (i: number): number => Math.floor(sorted[i] / PLACES);
  for (let i = 0; i < count;) {
    const first = frameAt(i);
    let last = first;
    let end = i + 1;
    for (; end < count; end++) {
      const frame = frameAt(end);
      if (frame - last > GAP || frame - first >= WINDOW) break;
      last = frame;
    }
    const read = readSync(fd, words, 0, (last - first + 1) * 8, first * 8) / 8;
    for (; i < end; i++) {
      const entry = frameAt(i) - first;
      if (entry < read) visit(from + (sorted[i] % PLACES), words[2 * entry], words[2 * entry + 1]);
    }
  }
}
