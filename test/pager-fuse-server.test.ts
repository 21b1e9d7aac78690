import { closeSync, openSync, readSync, rmSync } from 'node:fs';
import { constants } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { In, IN_HEADER_BYTES, Opcode } from '../src/pager/fuse-protocol.js';
import { FUSE_BYTES, FuseServer } from '../src/pager/fuse-server.js';
import { Workspace } from '../src/codec/kernels.js';
import { Store, STORE_BYTES } from '../src/store/store.js';
import { Counter } from '../src/store/volatile.js';
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
  const workspace = new Workspace(FUSE_BYTES + STORE_BYTES);
  const store = new Store(bench.tables, bench.shared, bench.packs, workspace, {
    fd: bench.fd,
    stagingBytes: 1 << 30,
    scratch: FUSE_BYTES,
  });
  const server = new FuseServer(store, workspace, fd);
  let replies = 0;
  const write = (slot: number, pages: Uint8Array): number => {
    const { words, bytes } = workspace;
    words.fill(0, 0, In.WRITE_DATA / 4);
    words[In.OPCODE / 4] = Opcode.WRITE;
    words[In.OFFSET / 4] = slot * PAGE;
    words[In.SIZE / 4] = pages.length;
    words[In.LENGTH / 4] = IN_HEADER_BYTES + 40 + pages.length;
    bytes.set(pages, In.WRITE_DATA);
    server.handle();
    const header = Buffer.alloc(16);
    readSync(fd, header, 0, 16, replies);
    replies += header.readUInt32LE(0);
    return header.readInt32LE(4);
  };
  return { store, write };
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
