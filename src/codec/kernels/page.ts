// Page kernels, compiled by AssemblyScript to WebAssembly: what must touch every word of a page.
// A page is 4096 bytes at an address of the imported memory. Nothing here allocates.

const WORDS: usize = 512;
const PAGE: usize = 4096;

const P1: u64 = 0x9e3779b185ebca87;
const P2: u64 = 0xc2b2ae3d27d4eb4f;
const P3: u64 = 0x165667b19e3779f9;
const P4: u64 = 0x85ebca77c2b2ae63;

// @ts-ignore: decorator
@inline
function round(lane: u64, input: u64): u64 {
  return rotl<u64>(lane + input * P2, 31) * P1;
}

// @ts-ignore: decorator
@inline
function merge(hash: u64, lane: u64): u64 {
  return (hash ^ round(0, lane)) * P1 + P4;
}

/** XXH64 (seed 0) of the page, stored little-endian at `out`. A page is a multiple of 32 bytes: no tail. */
export function xxh64(page: usize, out: usize): void {
  let a: u64 = P1 + P2;
  let b: u64 = P2;
  let c: u64 = 0;
  let d: u64 = 0 - P1;
  for (let at = page, end = page + PAGE; at < end; at += 32) {
    a = round(a, load<u64>(at));
    b = round(b, load<u64>(at, 8));
    c = round(c, load<u64>(at, 16));
    d = round(d, load<u64>(at, 24));
  }
  let hash = rotl<u64>(a, 1) + rotl<u64>(b, 7) + rotl<u64>(c, 12) + rotl<u64>(d, 18);
  hash = merge(hash, a);
  hash = merge(hash, b);
  hash = merge(hash, c);
  hash = merge(hash, d);
  hash += PAGE;
  hash = (hash ^ (hash >> 33)) * P2;
  hash = (hash ^ (hash >> 29)) * P3;
  store<u64>(out, hash ^ (hash >> 32));
}

/** 1 when every 8-byte word of the page equals the first. */
export function isSameFilled(page: usize): i32 {
  const first = load<u64>(page);
  for (let at = page + 8, end = page + PAGE; at < end; at += 8) {
    if (load<u64>(at) != first) return 0;
  }
  return 1;
}

/** Fills the page with the 8-byte word stored at `word`. */
export function fill(page: usize, word: usize): void {
  const pattern = v128.splat<u64>(load<u64>(word));
  for (let at = page, end = page + PAGE; at < end; at += 16) v128.store(at, pattern);
}

/** Number of 8-byte words, 0 to 512, in which two pages differ. */
export function differingWords(left: usize, right: usize): i32 {
  let equal = i64x2.splat(0);
  for (let at: usize = 0; at < PAGE; at += 16) {
    equal = v128.sub<i64>(equal, v128.eq<i64>(v128.load(left + at), v128.load(right + at)));
  }
  return <i32>WORDS - <i32>(v128.extract_lane<i64>(equal, 0) + v128.extract_lane<i64>(equal, 1));
}

/**
 * Similarity sketch: four super-features (u32 each, never 0) at `out`. Twelve min-hashes over the set of non-zero
 * 8-byte words, three to a super-feature, so that pages sharing most words share at least one of the four.
 * Position does not count. (Broder's resemblance; super-features as in Shilane et al., FAST 2012.)
 */
export function sketch(page: usize, out: usize): void {
  const scaleA = i32x4(0x9e3779b1, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f);
  const scaleB = i32x4(0x165667b1, 0xd3a2646d, 0xfd7046c5, 0xb55a4f09);
  const scaleC = i32x4(0x7feb352d, 0x846ca68b, 0x94d049bb, 0x6c62272f);
  let minA = i32x4.splat(-1);
  let minB = minA;
  let minC = minA;
  for (let at = page, end = page + PAGE; at < end; at += 8) {
    const word = load<u64>(at);
    if (word == 0) continue;
    const mixed = word * P1;
    const feature = i32x4.splat(<i32>((mixed ^ (mixed >> 29)) >> 16));
    minA = v128.min<u32>(minA, v128.mul<i32>(feature, scaleA));
    minB = v128.min<u32>(minB, v128.mul<i32>(feature, scaleB));
    minC = v128.min<u32>(minC, v128.mul<i32>(feature, scaleC));
  }
  // Lane i of the three vectors makes super-feature i.
  let joined = v128.add<i32>(v128.mul<i32>(minA, scaleB), v128.mul<i32>(minB, scaleC));
  joined = v128.add<i32>(joined, v128.mul<i32>(minC, scaleA));
  v128.store(out, v128.or(joined, i32x4.splat(1)));
}

/**
 * How a page differs from its base, without an entropy coder, at `out`. For each word that differs: words passed over
 * since the last one (u8; 255 passes over 255 and names none), which of its bytes are other (u8, lowest bit for the
 * first byte), and those bytes. Returns its length; 0 when no word differs, or more than `most` do.
 */
export function sparseDiff(page: usize, base: usize, out: usize, most: i32): i32 {
  let at = out;
  let next: usize = 0;
  for (let word: usize = 0; word < WORDS; word++) {
    const value = load<u64>(page + word * 8);
    const change = value ^ load<u64>(base + word * 8);
    if (change == 0) continue;
    if (most-- == 0) return 0;
    let gap = word - next;
    for (; gap >= 255; gap -= 255) store<u8>(at++, 255);
    store<u8>(at++, <u8>gap);
    let mask: u32 = 0;
    let to = at + 1;
    for (let byte: u32 = 0; byte < 8; byte++) {
      if (((change >> (byte * 8)) & 0xff) == 0) continue;
      mask |= 1 << byte;
      store<u8>(to++, <u8>(value >> (byte * 8)));
    }
    store<u8>(at, <u8>mask);
    at = to;
    next = word + 1;
  }
  return <i32>(at - out);
}

/** Turns the base at `page` into the page that `sparseDiff` described; 0 when the description is damaged. */
export function sparsePatch(page: usize, diff: usize, length: i32): i32 {
  const end = diff + <usize>length;
  let word: usize = 0;
  while (diff < end) {
    const gap = <usize>load<u8>(diff++);
    word += gap;
    if (gap == 255) continue;
    if (word >= WORDS || diff >= end) return 0;
    const mask = <u32>load<u8>(diff++);
    if (diff + <usize>popcnt<u32>(mask) > end) return 0;
    for (let byte: u32 = 0; byte < 8; byte++) {
      if ((mask & (1 << byte)) != 0) store<u8>(page + word * 8 + byte, load<u8>(diff++));
    }
    word++;
  }
  return 1;
}
