import { closeSync, openSync, readSync, rmSync } from 'node:fs';
import { constants } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { In, IN_HEADER_BYTES, Opcode } from '../src/pager/fuse/protocol.js';
import { Super } from '../src/store/layout.js';
import { Counter } from '../src/store/volatile.js';
import { fuseServerOver } from './support/fuse-server.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

const PATH = '/var/tmp/agentzip-test-fuse-replies';
let bench: StoreBench;
let fd: number;
beforeEach(() => {
  bench = new StoreBench({ slots: 1024, arenaBytes: 32 * 65536 });
  fd = openSync(PATH, 'w+', 0o600);
});
afterEach(() => {
  closeSync(fd);
  rmSync(PATH);
  bench.close();
});

/** A server whose requests are put into its workspace, and whose replies are read from a file. */
function serverOf() {
  const { workspace, store, server } = fuseServerOver(bench, fd);
  let replies = 0;
  const write = (slot: number, pages: Uint8Array, unique = [0, 0]): number => {
    const { words, bytes } = workspace;
    words.fill(0, 0, In.WRITE_DATA / 4);
    words.set(unique, In.UNIQUE / 4);
    words[In.OPCODE / 4] = Opcode.WRITE;
    words[In.OFFSET / 4] = slot * PAGE;
    words[In.SIZE / 4] = pages.length;
    words[In.LENGTH / 4] = IN_HEADER_BYTES + 40 + pages.length;
    bytes.set(pages, In.WRITE_DATA);
    for (let done = 0; done >= 0;) done = server.write(0, done, 3);
    const header = Buffer.alloc(16);
    readSync(fd, header, 0, 16, replies);
    replies += header.readUInt32LE(0);
    expect([header.readUInt32LE(8), header.readUInt32LE(12)]).toEqual(unique);
    return header.readInt32LE(4);
  };
  const notification = (): Uint32Array => {
    expect(server.resend()).toBe(true);
    const words = new Uint32Array(4);
    replies += readSync(fd, new Uint8Array(words.buffer), 0, 16, replies);
    return words;
  };
  return { store, write, notification };
}

test('a request that the store refuses in its middle leaves nothing in any of its slots', () => {
  const random = testRandom('pager-fuse-server');
  const { store, write } = serverOf();
  // Somebody's pages, whose slots the kernel gives to somebody else: the first ones take no room, so free none.
  const pages = random.bytes(8 * PAGE).fill(7, 0, 4 * PAGE);
  expect(write(0, pages)).toBe(0);
  let next = 8;
  while (write(next, random.bytes(PAGE)) === 0) next++;
  expect(next).toBeLessThan(1024);
  expect(bench.tables.slotObject[7]).not.toBe(0);
  const before = bench.shared.counters[Counter.REFUSED];
  expect(write(0, random.bytes(8 * PAGE).fill(9, 0, PAGE))).toBe(-constants.errno.ENOSPC);
  expect(bench.shared.counters[Counter.REFUSED] - before).toBe(8);
  for (let slot = 0; slot < 8; slot++) {
    expect(store.read(slot, 0)).toBe(true);
    expect(bench.tables.slotObject[slot], `slot ${slot} still holds a page`).toBe(0);
  }
  expect(violations({ tables: bench.tables, store })).toEqual([]);
});

test('a request that is sent again is answered under its marked number, and changes nothing more', () => {
  const random = testRandom('pager-fuse-server');
  const { store, write } = serverOf();
  const pages = random.bytes(3 * PAGE).fill(5, PAGE, 2 * PAGE);
  expect(write(6, pages, [77, 0])).toBe(0);
  const { used, objects } = {
    used: store.arena.usedBytes,
    objects: bench.tables.superblock[Super.HIGH_OBJECT],
  };
  // The top bit says: once more (FUSE_UNIQUE_RESEND).
  expect(write(6, pages, [77, 0x80000000])).toBe(0);
  expect(store.arena.usedBytes).toBe(used);
  expect(violations({ tables: bench.tables, store })).toEqual([]);
  bench.restart();
  for (let i = 0; i < 3; i++) expect(bench.read(6 + i)).toEqual(pages.slice(i * PAGE, (i + 1) * PAGE));
  expect(bench.tables.superblock[Super.HIGH_OBJECT]).toBeLessThanOrEqual(objects + 3);
});

test('the kernel is asked for unanswered requests by a notification', () => {
  // struct fuse_out_header: length, notify code, no unique number
  expect([...serverOf().notification()]).toEqual([16, 7, 0, 0]);
});
