import { closeSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { ftruncate } from '../src/native/files.js';
import { MAP_SHARED, memfdCreate, mmap, PROT_READ, PROT_WRITE, view } from '../src/native/memory.js';
import { Arena } from '../src/store/arena.js';
import { blockBytes } from '../src/store/size-classes.js';
import { memoryBytes } from '../src/store/volatile.js';
import { testRandom } from './support/seed.js';

const SEGMENTS = 1024;
const BYTES = SEGMENTS * 65536;
let fd = -1;
let address = 0;
afterEach(() => {
  if (fd >= 0) closeSync(fd);
  fd = -1;
});

function makeArena(): Arena {
  fd = memfdCreate('agentzip-test-arena');
  ftruncate(fd, BYTES);
  address = mmap(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  return new Arena(fd, 0, address, BYTES);
}

test('blocks never overlap and all come back', () => {
  const random = testRandom('store-arena');
  const arena = makeArena();
  const taken = new Uint8Array(BYTES / 16);
  const blocks: { unit: number; length: number }[] = [];
  let used = 0;
  for (let step = 0; step < 60_000; step++) {
    if (blocks.length > 0 && random.below(100) < 48) {
      const [{ unit, length }] = blocks.splice(random.below(blocks.length), 1);
      arena.free(unit, length);
      taken.fill(0, unit, unit + blockBytes(length) / 16);
      used -= blockBytes(length);
    } else {
      const length = 1 + random.below(4096);
      const unit = arena.allocate(length);
      if (unit < 0) continue;
      const end = unit + blockBytes(length) / 16;
      expect(end).toBeLessThanOrEqual(BYTES / 16);
      expect(taken.subarray(unit, end).indexOf(1)).toBe(-1);
      taken.fill(1, unit, end);
      blocks.push({ unit, length });
      used += blockBytes(length);
    }
  }
  expect(arena.usedBytes).toBe(used);
  for (const { unit, length } of blocks) arena.free(unit, length);
  expect(arena.usedBytes).toBe(0);
});

test('what is freed goes back to the kernel', () => {
  const arena = makeArena();
  const bytes = new Uint8Array(view(address, BYTES));
  const units: number[] = [];
  for (let unit; (unit = arena.allocate(4096)) >= 0;) units.push(unit);
  expect(units.length).toBe(BYTES / 4096);
  for (const unit of units) bytes.fill(1, unit * 16, unit * 16 + 4096);
  expect(memoryBytes(fd)).toBe(BYTES);
  for (const unit of units) arena.free(unit, 4096);
  // A call is bounded by its system calls, each for a run of at most 1 MiB: faults wait for it.
  arena.trim(2, 64);
  expect(memoryBytes(fd)).toBe(BYTES - 2 * 2 ** 20);
  for (let round = 0; round < BYTES / 2 ** 21; round++) arena.trim(2, 64);
  expect(memoryBytes(fd)).toBe(0);
  expect(arena.allocate(4096)).toBeGreaterThanOrEqual(0);
});

test('a few raw pages do not keep whole segments in memory', () => {
  const arena = makeArena();
  const bytes = new Uint8Array(view(address, BYTES));
  // More segments than are looked at in one go.
  const units = Array.from({ length: 3 * 64 * 16 }, () => arena.allocate(4096));
  for (const unit of units) bytes.fill(1, unit * 16, unit * 16 + 4096);
  units.forEach((unit, i) => i % 16 !== 5 && arena.free(unit, 4096));
  arena.age();
  expect(arena.trim(2, 64), 'more of them may go soon').toBe(0);
  arena.age();
  for (let round = 0; round < 3 * 64; round++) arena.trim(2, 64);
  expect(memoryBytes(fd)).toBe(3 * 64 * 4096);
  units.forEach((unit, i) => i % 16 === 5 && expect(bytes[unit * 16 + 100]).toBe(1));
});

test('nothing of a block that was freed is left in memory', () => {
  const random = testRandom('store-arena');
  const arena = makeArena();
  const bytes = new Uint8Array(view(address, BYTES));
  const blocks = Array.from({ length: 2000 }, () => {
    const length = 1 + random.below(4096);
    const unit = arena.allocate(length);
    bytes.fill(1, unit * 16, unit * 16 + length);
    return { unit, length };
  });
  blocks.forEach(({ unit, length }, i) => i % 2 === 0 && arena.free(unit, length));
  blocks.forEach(({ unit, length }, i) => {
    const block = bytes.subarray(unit * 16, unit * 16 + length);
    expect(block.every((byte) => byte === i % 2)).toBe(true);
  });
});

test('a full arena says so, and has room again after a free', () => {
  const arena = makeArena();
  const units: number[] = [];
  for (let unit; (unit = arena.allocate(2048)) >= 0;) units.push(unit);
  expect(arena.allocate(4096)).toBe(-1);
  for (const unit of units.slice(0, 32)) arena.free(unit, 2048);
  expect(arena.allocate(4096)).toBeGreaterThanOrEqual(0);
});

test('rounding up wastes little', () => {
  for (let length = 200; length <= 4096; length++) {
    expect(blockBytes(length)).toBeGreaterThanOrEqual(length);
    expect(blockBytes(length) / length).toBeLessThan(1.08);
  }
});

interface Block {
  unit: number;
  length: number;
}

/** Moves blocks as compaction does, until none moves any more; how many moved. */
function settle(arena: Arena, blocks: Block[]): number {
  const bytes = new Uint8Array(view(address, BYTES));
  let moved = 0;
  for (let before = -1; moved !== before;) {
    before = moved;
    for (const block of blocks) {
      const { unit, length } = block;
      const target = arena.relocate(unit, length);
      if (target < 0) continue;
      bytes.copyWithin(target * 16, unit * 16, unit * 16 + length);
      arena.free(unit, length);
      block.unit = target;
      expect(++moved, 'blocks go on moving').toBeLessThan(4 * blocks.length);
    }
  }
  return moved;
}

test('blocks come to rest, together, and what they leave goes back to the kernel', () => {
  const random = testRandom('store-arena');
  const arena = makeArena();
  const bytes = new Uint8Array(view(address, BYTES));
  const all: Block[] = Array.from({ length: 20_000 }, (_, i) => {
    const length = 100 + random.below(900);
    const unit = arena.allocate(length);
    bytes.fill(1 + (i % 255), unit * 16, unit * 16 + length);
    return { unit, length };
  });
  // From little to nearly all of each class: compaction must come to its end with any share of free blocks.
  const left = all.filter(
    ({ unit, length }) => random.below(1000) > length || (arena.free(unit, length), false),
  );
  settle(arena, left);
  for (let round = 0; round < 1000; round++) arena.trim(8, 64);
  // Of 30 sizes each keeps two pages at most that it does not need.
  expect(memoryBytes(fd) - arena.usedBytes).toBeLessThan(30 * 2 * 4096);
  const values = new Map(all.map((block, i) => [block, 1 + (i % 255)]));
  for (const block of left) {
    const from = block.unit * 16;
    expect(bytes.subarray(from, from + block.length).every((byte) => byte === values.get(block))).toBe(true);
  }
});

test('two half empty segments do not pass their blocks to and fro', () => {
  const arena = makeArena();
  const blocks = Array.from({ length: 2 * 64 }, () => ({ unit: arena.allocate(1024), length: 1024 }));
  const left = blocks.filter(({ unit, length }, i) => i % 4 === 0 || (arena.free(unit, length), false));
  // Half of them move over; what then lies beyond the others, together.
  expect(settle(arena, left)).toBeLessThanOrEqual(left.length);
});
