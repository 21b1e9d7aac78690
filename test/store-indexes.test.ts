import { expect, test } from 'vitest';
import { HashIndex, hashIndexWords } from '../src/store/hash-index.js';
import { MAX_CANDIDATES, SketchIndex, sketchIndexWords } from '../src/store/sketch-index.js';
import { testRandom } from './support/seed.js';

const IDS = 20_000;

test('the hash index finds what is in it, and only that, through growth and removal', () => {
  const random = testRandom('store-indexes');
  const low = Uint32Array.from({ length: IDS + 1 }, () => random.below(2 ** 32));
  const high = Uint32Array.from({ length: IDS + 1 }, () => random.below(2 ** 32));
  const domains = Uint16Array.from({ length: IDS + 1 }, () => 1 + random.below(3));
  const index = new HashIndex(new Uint32Array(hashIndexWords(IDS)), low, high, domains);
  index.reset(16);
  const present = new Set<number>();
  for (let step = 0; step < 100_000; step++) {
    const id = 1 + random.below(IDS);
    if (present.has(id)) {
      index.remove(id);
      present.delete(id);
    } else {
      index.insert(id);
      present.add(id);
    }
  }
  for (let id = 1; id <= IDS; id++) {
    expect(index.find(low[id], high[id], domains[id])).toBe(present.has(id) ? id : 0);
    expect(index.find(low[id], high[id], domains[id] + 1)).toBe(0);
  }
  expect(present.size).toBeGreaterThan(IDS / 4);
  const full = index.used().length;
  for (const id of [...present].slice(500)) {
    index.remove(id);
    present.delete(id);
  }
  while (index.shrink());
  expect(index.used().length).toBeLessThan(full / 3);
  for (let id = 1; id <= IDS; id++) {
    expect(index.find(low[id], high[id], domains[id])).toBe(present.has(id) ? id : 0);
  }
});

test('the sketch index ranks by shared features, keeps domains apart and survives growth', () => {
  const random = testRandom('store-indexes');
  const index = new SketchIndex(new Uint32Array(sketchIndexWords(4096)));
  index.reset(16);
  const features = Uint32Array.from({ length: 4 * 2001 }, () => random.below(2 ** 32) | 1);
  // Page 2000 shares three features with page 1999, one with page 1998.
  features.set(features.subarray(4 * 1999, 4 * 1999 + 3), 4 * 2000);
  features[4 * 2000 + 3] = features[4 * 1998 + 3];
  for (let id = 1; id < 2000; id++) index.insert(features, 4 * id, 7, id, id);
  const ids = new Uint32Array(MAX_CANDIDATES);
  expect(index.find(features, 4 * 2000, 7, ids)).toBe(2);
  expect([...ids.subarray(0, 2)]).toEqual([1999, 1998]);
  expect(index.find(features, 4 * 2000, 8, ids)).toBe(0);
  // Set associative: it may forget, but not much while there is room.
  let found = 0;
  for (let id = 1; id < 2000; id++) if (index.find(features, 4 * id, 7, ids) > 0 && ids[0] === id) found++;
  expect(found).toBeGreaterThan(1900);
  // Few are left: the newest stay when the index becomes smaller.
  const full = index.used().length;
  while (index.shrink(200));
  expect(index.used().length).toBeLessThan(full);
  let kept = 0;
  for (let id = 1800; id < 2000; id++) if (index.find(features, 4 * id, 7, ids) > 0 && ids[0] === id) kept++;
  expect(kept).toBeGreaterThan(190);
});
