import { afterEach, expect, test } from 'vitest';
import { Kind } from '../src/codec/kinds.js';
import { openDictionary } from '../src/store/dictionaries.js';
import { DICTIONARY_BYTES, MAX_DICTIONARIES } from '../src/store/layout.js';
import { type Random, testRandom } from './support/seed.js';
import { ENCODING, PAGE, StoreBench, violations } from './support/store.js';

const SLOTS = 16_384;
/** What pages have in common: each has some of these, in another order, and is like no other page. */
const WORDS = 512;
const WORD_BYTES = 24;

let bench: StoreBench;
afterEach(() => bench.close());

const vocabulary = (random: Random): Uint8Array[] =>
  Array.from({ length: WORDS }, () => random.bytes(WORD_BYTES));

function sentence(random: Random, words: readonly Uint8Array[]): Uint8Array {
  const page = random.bytes(PAGE);
  for (let at = 0; at + 2 * WORD_BYTES < PAGE; at += 2 * WORD_BYTES) {
    page.set(words[random.below(words.length)], at + random.below(WORD_BYTES));
  }
  return page;
}

function store(slot: number, page: Uint8Array, owner: number): void {
  bench.write(slot, page);
  bench.claim(owner, [slot]);
  bench.refine(slot, owner);
  bench.commitAll();
}

/** Stores pages from `slot` on until there are enough to make a dictionary from, and makes it. Returns the next slot. */
function learn(random: Random, words: readonly Uint8Array[], owner: number, slot = 0): number {
  for (; !bench.refiner.trains; slot++) store(slot, sentence(random, words), owner);
  const trained = bench.refiner.train();
  if (trained !== null) bench.store.dictionaries.add(trained.domain, trained.bytes, trained.replaces);
  return slot;
}

/** A store, and an owner in each of two domains. */
function pair(encoding = ENCODING): [random: Random, mine: number, stranger: number] {
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 1024 * 65536 }, 1 << 30, encoding);
  return [testRandom('store-dictionary'), bench.owner('a', 'one'), bench.owner('c', 'two')];
}

const lengthOf = (slot: number): number => bench.tables.objectLength[bench.tables.slotObject[slot]];
const bytesOf = (number: number): Uint8Array => bench.tables.dictionaryBytes(number);

test('pages without a base make a dictionary, with which the next ones take less', () => {
  const [random, mine] = pair();
  const words = vocabulary(random);
  const next = learn(random, words, mine);
  const page = sentence(random, words);
  store(next, page, mine);
  expect(bench.kind(next)).toBe(Kind.DICTIONARY);
  expect(lengthOf(next)).toBeLessThan(0.8 * lengthOf(next - 1));
  expect(Buffer.compare(bench.read(next)!, page)).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('a dictionary is its domain’s: pages of another are compressed without it', () => {
  const [random, mine, stranger] = pair();
  const words = vocabulary(random);
  const next = learn(random, words, mine);
  store(next, sentence(random, words), stranger);
  expect(bench.kind(next)).toBe(Kind.RAW);
  expect(violations(bench)).toEqual([]);
});

test('without dictionaries none is made', () => {
  const [random, mine] = pair({ ...ENCODING, dictionary: false });
  const words = vocabulary(random);
  for (let slot = 0; slot < 6000; slot++) store(slot, sentence(random, words), mine);
  expect(bench.refiner.trains).toBe(false);
});

test('one that does much worse than at first is replaced, and stays for the pages that rest on it', () => {
  const [random, mine] = pair();
  const words = vocabulary(random);
  const next = learn(random, words, mine);
  const domain = bench.tables.ownerDomains[mine];
  const first = openDictionary(bench.tables, domain);
  const old = sentence(random, words);
  store(next, old, mine);
  let slot = next + 1;
  for (const end = slot + 600; slot < end; slot++) store(slot, sentence(random, words), mine);
  learn(random, vocabulary(random), mine, slot);
  const second = openDictionary(bench.tables, domain);
  expect(second).not.toBe(first);
  expect(second).toBeGreaterThan(0);
  expect(Buffer.compare(bench.read(next)!, old)).toBe(0);
  expect(violations(bench)).toEqual([]);
  bench.store.discard(0, SLOTS);
  expect(bench.tables.dictionaryDomain[first]).toBe(0);
  expect(bytesOf(first).every((byte) => byte === 0)).toBe(true);
  expect(violations(bench)).toEqual([]);
});

test('it outlives the process, and goes with the last sandbox of its domain', () => {
  const [random, mine] = pair();
  const words = vocabulary(random);
  const next = learn(random, words, mine);
  const page = sentence(random, words);
  store(next, page, mine);
  const domain = bench.tables.ownerDomains[mine];
  const number = openDictionary(bench.tables, domain);
  bench.restart();
  expect(openDictionary(bench.tables, domain)).toBe(number);
  expect(Buffer.compare(bench.read(next)!, page)).toBe(0);
  expect(violations(bench)).toEqual([]);
  const sibling = bench.owner('b', 'one');
  bench.store.forget(mine, false);
  bench.tables.ownerDomains[mine] = 0;
  expect(openDictionary(bench.tables, domain)).toBe(number);
  bench.store.forget(sibling, false);
  // No new page may use it; the old one still rests on it.
  expect(openDictionary(bench.tables, domain)).toBe(0);
  expect(Buffer.compare(bench.read(next)!, page)).toBe(0);
  bench.store.discard(0, SLOTS);
  expect(bench.tables.dictionaryDomain[number]).toBe(0);
  expect(bytesOf(number).every((byte) => byte === 0)).toBe(true);
});

test('a page that was encoded with one that is gone meanwhile stays as it was written', () => {
  const [random, mine] = pair();
  const words = vocabulary(random);
  const next = learn(random, words, mine);
  const page = sentence(random, words);
  bench.write(next, page);
  bench.claim(mine, [next]);
  bench.refine(next, mine);
  const domain = bench.tables.ownerDomains[mine];
  const number = openDictionary(bench.tables, domain);
  bench.store.dictionaries.retire(domain);
  // The same number, other bytes.
  expect(bench.addDictionary(domain, random.bytes(DICTIONARY_BYTES))).toBe(number);
  bench.commitAll();
  expect(bench.kind(next)).toBe(Kind.STAGED);
  expect(Buffer.compare(bench.read(next)!, page)).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('of two workers that make one for the same domain the first wins', () => {
  const [random, mine] = pair();
  const domain = bench.tables.ownerDomains[mine];
  const { dictionaries } = bench.store;
  expect(dictionaries.add(domain, random.bytes(1000), 0)).toBe(1);
  expect(dictionaries.add(domain, random.bytes(1000), 0)).toBe(0);
  expect(dictionaries.add(domain, random.bytes(DICTIONARY_BYTES + 1), 1)).toBe(0);
  expect(violations(bench)).toEqual([]);
});

test('when all numbers are taken, one that nothing rests on makes room', () => {
  const [random] = pair();
  const { dictionaries } = bench.store;
  for (let domain = 1; domain <= MAX_DICTIONARIES; domain++) {
    expect(dictionaries.add(domain, random.bytes(100), 0)).toBe(domain);
    if (domain !== 7) dictionaries.retain(domain);
  }
  expect(dictionaries.add(300, random.bytes(100), 0)).toBe(7);
  dictionaries.retain(7);
  expect(dictionaries.add(301, random.bytes(100), 0)).toBe(0);
});
