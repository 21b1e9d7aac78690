import { expect, test } from 'vitest';
import { Workspace } from '../src/codec/kernels.js';
import { testRandom } from './support/seed.js';

const PAGE = 4096;
const WORDS = 512;
const MOST = 24;
const AT = { page: 0, base: PAGE, list: 2 * PAGE, back: 3 * PAGE };
const workspace = new Workspace(4 * PAGE);
const { bytes, kernels } = workspace;
const random = testRandom('codec-sparse');

/** A random base and a page with `words` of its words changed; returns the length of their difference. */
function differ(words: number): number {
  bytes.set(random.bytes(PAGE), AT.base);
  bytes.copyWithin(AT.page, AT.base, AT.base + PAGE);
  const places = new Set<number>();
  while (places.size < words) places.add(random.below(WORDS));
  for (const place of places) {
    for (let change = random.below(8) + 1; change > 0; change--)
      bytes[AT.page + place * 8 + random.below(8)] ^= 1 + random.below(255);
    // Two changes may have cancelled each other.
    bytes[AT.page + place * 8] ^= bytes[AT.page + place * 8] === bytes[AT.base + place * 8] ? 0xff : 0;
  }
  return kernels.sparseDiff(AT.page, AT.base, AT.list, MOST);
}

function patched(length: number): number {
  bytes.copyWithin(AT.back, AT.base, AT.base + PAGE);
  return kernels.sparsePatch(AT.back, AT.list, length);
}

test('a page with a few words changed comes back from its base and their list', () => {
  for (let round = 0; round < 2000; round++) {
    const length = differ(1 + random.below(MOST));
    expect(length).toBeGreaterThan(0);
    expect(length).toBeLessThanOrEqual(MOST * 10 + 2);
    expect(patched(length)).toBe(1);
    expect(kernels.differingWords(AT.page, AT.back)).toBe(0);
  }
});

test('the first and the last word alone are found across the widest gap', () => {
  for (const place of [0, 254, 255, 256, 510, 511]) {
    differ(0);
    bytes[AT.page + place * 8 + 7] ^= 1;
    const length = kernels.sparseDiff(AT.page, AT.base, AT.list, MOST);
    expect(patched(length), `word ${place}`).toBe(1);
    expect(kernels.differingWords(AT.page, AT.back), `word ${place}`).toBe(0);
  }
});

test('equal pages and pages with many changes have no list', () => {
  expect(differ(0)).toBe(0);
  expect(differ(MOST + 1)).toBe(0);
  expect(differ(MOST)).toBeGreaterThan(0);
});

test('a damaged list never writes outside its page', () => {
  for (let round = 0; round < 5000; round++) {
    const length = differ(1 + random.below(MOST));
    for (let i = 0; i < 3; i++) bytes[AT.list + random.below(length)] = random.below(256);
    bytes.fill(0xaa, AT.back + PAGE, AT.back + PAGE + 64);
    patched(1 + random.below(length));
    expect(bytes.subarray(AT.back + PAGE, AT.back + PAGE + 64).every((byte) => byte === 0xaa)).toBe(true);
  }
});
