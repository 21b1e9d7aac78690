import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { HashIndex, hashIndexWords } from '../src/store/hash-index.js';
import { MOST_NAMES, RefCounts } from '../src/store/ref-counts.js';
import { FEATURES, MAX_CANDIDATES, SketchIndex, sketchIndexWords } from '../src/store/sketch-index.js';
import { testRandom } from './support/seed.js';

const IDS = 40_000;

let reader: Worker | undefined;
afterEach(async () => {
  await reader?.terminate();
  reader = undefined;
});

/** A hash index with the columns its ids point into, and what must be in it. */
function hashIndex() {
  const random = testRandom('store-indexes');
  const column = (): Uint32Array => Uint32Array.from({ length: IDS + 1 }, () => random.below(2 ** 32));
  const [low, high] = [column(), column()];
  const domains = Uint16Array.from({ length: IDS + 1 }, () => 1 + random.below(3));
  const words = new Uint32Array(hashIndexWords(IDS));
  const index = new HashIndex(words, low, high, domains);
  index.reset();
  const present = new Set<number>();
  const toggle = (id: number): void => {
    if (present.delete(id)) index.remove(id);
    else index.insert(present.add(id) && id);
  };
  const check = (): void => {
    for (let id = 1; id <= IDS; id++) {
      const found = index.find(low[id], high[id], domains[id]);
      if (found !== (present.has(id) ? id : 0)) expect([id, found]).toEqual([id, present.has(id) ? id : 0]);
      if (index.find(low[id], high[id], domains[id] + 3) !== 0) expect(id).toBe('of another domain');
    }
  };
  return { random, index, words, low, high, domains, present, toggle, check };
}

test('the hash index finds what is in it, and only that, through growth, removal and a peak that is over', () => {
  const { random, index, words, present, toggle, check } = hashIndex();
  for (let step = 0; step < 100_000; step++) toggle(1 + random.below(IDS));
  check();
  expect(present.size).toBeGreaterThan(IDS / 4);
  const full = index.usedBytes;
  for (const id of [...present].slice(500)) toggle(id);
  while (index.shrink()) {
    // What it says it has freed is the kernel's from now on.
    const { at, bytes } = index.freed;
    expect(bytes).toBeGreaterThan(0);
    words.fill(0, at / 4, (at + bytes) / 4);
  }
  expect(index.usedBytes).toBeLessThan(full / 10);
  check();
  for (let id = 1; id <= IDS; id++) if (!present.has(id)) toggle(id);
  check();
  index.reset();
  present.clear();
  check();
  expect(index.usedBytes).toBe(4096);
});

test('the hash index takes at most five and a half bytes an entry, at any size', () => {
  const { index, toggle } = hashIndex();
  for (let id = 1; id <= IDS; id++) {
    toggle(id);
    if (id > 4000 && id % 500 === 0) expect(index.usedBytes / id).toBeLessThan(5.5);
  }
});

test('equal hashes are all kept, and each can be removed', () => {
  const { index, low, high, domains, present, toggle, check } = hashIndex();
  for (let id = 2; id <= 300; id++) {
    [low[id], high[id], domains[id]] = [low[1], high[1], domains[1]];
    toggle(id);
  }
  for (let id = 300; id >= 3; id--) {
    toggle(id);
    const found = index.find(low[1], high[1], domains[1]);
    expect(present.has(found)).toBe(true);
  }
  toggle(2);
  check();
});

test('threads that look things up while the index changes find the right id or none, and always end', async () => {
  const { random, index, words, low, high, domains, toggle, check } = hashIndex();
  const share = <T extends Uint32Array | Uint16Array>(array: T): SharedArrayBuffer => {
    const shared = new SharedArrayBuffer(array.byteLength);
    new Uint8Array(shared).set(new Uint8Array(array.buffer));
    return shared;
  };
  const buffers = { words: share(words), low: share(low), high: share(high), domains: share(domains) };
  /** Set to end the reader; how often it has looked. */
  const told = new Int32Array(new SharedArrayBuffer(8));
  const shared = new HashIndex(new Uint32Array(buffers.words), low, high, domains);
  shared.reset();
  reader = new Worker(new URL('./fixtures/index-reader.mjs', import.meta.url), {
    workerData: { ...buffers, ids: IDS, told: told.buffer },
  });
  const said = <T>(): Promise<T> =>
    new Promise((resolve, reject) => void reader!.once('message', resolve).once('error', reject));
  await said<'ready'>();
  const seen = said<{ found: number; missed: number; wrong: number }>();
  const inside = new Set<number>();
  const end = Date.now() + 30_000;
  for (let step = 0; step < 400_000 || Atomics.load(told, 1) < 100_000; step++) {
    if (Date.now() > end) break;
    // Now many, now few: shards come and go under the reader.
    const grows = Math.floor(step / 100_000) % 2 === 0;
    const id = 1 + random.below(IDS);
    if (grows && !inside.has(id)) shared.insert(inside.add(id) && id);
    if (!grows && inside.delete(id)) shared.remove(id);
    if (!grows && step % 100 === 0) shared.shrink();
  }
  Atomics.store(told, 0, 1);
  const { found, wrong } = await seen;
  expect(wrong).toBe(0);
  expect(found).toBeGreaterThan(0);
  for (let id = 1; id <= IDS; id++) {
    expect(shared.find(low[id], high[id], domains[id])).toBe(inside.has(id) ? id : 0);
  }
  toggle(1);
  check();
  expect(index.usedBytes).toBe(4096);
}, 60_000);

/** `ids` sketches, all of different features. */
function sketches(ids: number) {
  const random = testRandom('store-indexes');
  const features = Uint32Array.from({ length: FEATURES * (ids + 1) }, () => random.below(2 ** 32) | 1);
  const index = new SketchIndex(new Uint32Array(sketchIndexWords(ids)));
  index.reset();
  const found = new Uint32Array(MAX_CANDIDATES);
  const finds = (id: number, salt = 7): boolean => {
    const count = index.find(features, FEATURES * id, salt, found);
    return count > 0 && found[0] === id;
  };
  return { index, features, found, finds };
}

test('the sketch index ranks by shared features and keeps domains apart', () => {
  const { index, features, found } = sketches(2000);
  // Page 2000 shares three features with page 1999, one with page 1998.
  features.set(features.subarray(4 * 1999, 4 * 1999 + 3), 4 * 2000);
  features[4 * 2000 + 3] = features[4 * 1998 + 3];
  for (let id = 1; id < 2000; id++) index.insert(features, 4 * id, 7, id, id);
  expect(index.find(features, 4 * 2000, 7, found)).toBe(2);
  expect([...found.subarray(0, 2)]).toEqual([1999, 1998]);
  expect(index.find(features, 4 * 2000, 8, found)).toBe(0);
});

test('the sketch index forgets few while it grows, the oldest first, and keeps the newest when it shrinks', () => {
  const ids = 50_000;
  const { index, features, finds } = sketches(ids);
  for (let id = 1; id <= ids; id++) {
    index.insert(features, 4 * id, 7, id, id);
    if (id < 5000 || id % 5000 !== 0) continue;
    let known = 0;
    for (let old = id - 999; old <= id; old++) if (finds(old)) known++;
    expect(known).toBeGreaterThan(990);
    known = 0;
    for (let old = 1; old <= 1000; old++) if (finds(old)) known++;
    expect(known).toBeGreaterThan(300);
    expect(index.used().byteLength / id).toBeLessThan(29);
  }
  const full = index.used().byteLength;
  while (index.shrink(2000));
  expect(index.used().byteLength).toBeLessThan(full / 4);
  let kept = 0;
  for (let id = ids - 999; id <= ids; id++) if (finds(id)) kept++;
  expect(kept).toBeGreaterThan(750);
});

test('the sketch index shrinks wherever its growth has stopped', () => {
  const { index, features } = sketches(8000);
  // It is left alone while half of it would not do, and may just be growing by a quarter.
  const least = index.used().length;
  for (let id = 1; id <= 8000; id++) {
    index.insert(features, 4 * id, 7, id, id);
    if (id % 100 !== 0) continue;
    while (index.shrink(1));
    expect(index.used().length, `after ${id}`).toBeLessThan(3.5 * least);
    for (let old = 1; old < id; old += 7) index.insert(features, 4 * old, 7, old, id);
  }
});

test('a page that gets another id takes the place of what it had in the sketch index', () => {
  const { index, features, finds, found } = sketches(3000);
  for (let id = 1; id <= 1000; id++) index.insert(features, 4 * id, 7, id, 1000);
  for (let id = 1; id <= 1000; id++) {
    features.copyWithin(4 * (id + 2000), 4 * id, 4 * id + 4);
    index.insert(features, 4 * id, 7, id + 2000, 1000, id);
  }
  let known = 0;
  for (let id = 1; id <= 1000; id++) {
    if (finds(id + 2000)) known++;
    const count = index.find(features, 4 * id, 7, found);
    expect([...found.subarray(0, count)]).not.toContain(id);
  }
  expect(known).toBeGreaterThan(980);
});

test('names are counted exactly, be they few or many', () => {
  const random = testRandom('store-indexes');
  const [narrow, wide] = [new Uint8Array(8), new Uint16Array(8)];
  const counts = new RefCounts(narrow, wide);
  const shadow = new Array<number>(8).fill(0);
  let most = 0;
  for (let step = 0; step < 40_000; step++) {
    const object = random.below(8);
    // Counts wander across the border of the narrow column again and again.
    if (random.below(100) < (Math.floor(step / 10_000) % 2 === 0 ? 80 : 20)) {
      counts.add(object);
      shadow[object]++;
    } else if (shadow[object] > 0) expect(counts.drop(object)).toBe(--shadow[object]);
    most = Math.max(most, shadow[object]);
    expect(counts.of(object)).toBe(shadow[object]);
  }
  expect(most).toBeGreaterThan(500);
  counts.clear(3);
  expect(counts.of(3)).toBe(0);
  counts.clearAll(8);
  for (let object = 0; object < 8; object++) expect(counts.of(object)).toBe(0);
  [narrow[0], wide[0]] = [254, 65535];
  counts.add(0);
  expect(counts.of(0)).toBe(MOST_NAMES);
  expect(counts.drop(0)).toBe(MOST_NAMES - 1);
});
