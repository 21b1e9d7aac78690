import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { Workspace } from '../src/codec/kernels.js';
import { ZstdCompressor } from '../src/native/zstd.js';

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
