import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { Workspace } from '../src/codec/kernels.js';
import { ZstdCompressor, ZstdDecompressor } from '../src/native/zstd.js';
import { testRandom } from './support/seed.js';

const PAGE = 4096;
const AT = { page: 0, base: PAGE, noise: 2 * PAGE, output: 3 * PAGE };

const workspace = new Workspace(4 * PAGE);
const at = (offset: number): number => workspace.address + offset;
const compressor = new ZstdCompressor(3);
const delta = (): number =>
  compressor.compressDelta(at(AT.output), PAGE - 1, at(AT.page), PAGE, at(AT.base), PAGE);

test.each([
  ['a page', () => compressor.compress(at(AT.output), PAGE - 1, at(AT.noise), PAGE)],
  ['a delta', () => compressor.compressDelta(at(AT.output), 40, at(AT.noise), PAGE, at(AT.base), PAGE)],
])('%s that did not fit costs the next delta nothing', (_, fail) => {
  const base = randomBytes(PAGE);
  workspace.bytes.set(base, AT.base);
  workspace.bytes.set(base, AT.page);
  workspace.bytes.set(randomBytes(16), AT.page);
  workspace.bytes.set(randomBytes(PAGE), AT.noise);
  const alone = delta();
  expect(alone).toBeGreaterThan(0);
  expect(fail()).toBeLessThan(0);
  expect(delta()).toBe(alone);
});

test('plain literals are kept as they are, what repeats is found all the same', () => {
  const random = testRandom('zstd-frames');
  const plain = new ZstdCompressor(5, true);
  const decompressor = new ZstdDecompressor();
  const frame = (by: ZstdCompressor): number => by.compress(at(AT.output), PAGE, at(AT.page), PAGE);
  const page = workspace.bytes.subarray(AT.page, AT.page + PAGE);
  // Half of it is bytes of which few kinds occur, in no order, and the rest the same again.
  page.set(random.bytes(PAGE / 2).map((byte) => byte % 32));
  page.copyWithin(PAGE / 2, 0, PAGE / 2);
  const compressed = frame(new ZstdCompressor(5));
  const length = frame(plain);
  expect(compressed).toBeLessThan(0.9 * (PAGE / 2));
  expect(length).toBeGreaterThan(PAGE / 2);
  expect(length).toBeLessThan(0.6 * PAGE);
  expect(decompressor.decompress(at(AT.base), PAGE, at(AT.output), length)).toBe(PAGE);
  expect(Buffer.compare(workspace.bytes.subarray(AT.base, AT.base + PAGE), page)).toBe(0);
});
