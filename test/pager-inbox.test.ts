import { closeSync, openSync, readSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { In, MAX_IO, OUT_HEADER_BYTES, Opcode, PUNCH_HOLE, READ_BYTES } from '../src/pager/fuse-protocol.js';
import { Announced } from '../src/pager/announced.js';
import { Inbox } from '../src/pager/inbox.js';
import { fuseServerOver } from './support/fuse-server.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench } from './support/store.js';

const PATH = '/var/tmp/agentzip-test-inbox-replies';
const SLOTS = 2048;
let bench: StoreBench;
let fd: number;
beforeEach(() => {
  bench = new StoreBench({ slots: SLOTS, arenaBytes: 256 * 65536 });
  fd = openSync(PATH, 'w+', 0o600);
});
afterEach(() => {
  closeSync(fd);
  rmSync(PATH);
  bench.close();
});

interface Reply {
  unique: number;
  error: number;
  data: Buffer;
}

/** An inbox whose requests come from a list, one for each read of the channel, and whose replies go to a file. */
function inboxOf() {
  const { workspace, server } = fuseServerOver(bench, fd);
  const sent: Buffer[] = [];
  const next = (address: number): number => {
    const request = sent.shift();
    if (request === undefined) return -1;
    workspace.bytes.set(request, address - workspace.address);
    return request.length;
  };
  /** What was read and not expected. */
  const demanded: number[] = [];
  const inbox = new Inbox(server, workspace, next, SLOTS, { note: (slot) => demanded.push(slot) });
  let unique = 0;
  const send = (opcode: number, slot: number, pages: number, data: Uint8Array = new Uint8Array()): number => {
    const request = Buffer.alloc(READ_BYTES + data.length);
    request.writeUInt32LE(request.length, In.LENGTH);
    request.writeUInt32LE(opcode, In.OPCODE);
    request.writeUInt32LE(++unique, In.UNIQUE);
    request.writeUInt32LE(slot * PAGE, In.OFFSET);
    request.writeUInt32LE(pages * PAGE, In.SIZE);
    if (opcode === Opcode.FALLOCATE) request.writeUInt32LE(PUNCH_HOLE, In.FALLOCATE_MODE);
    request.set(data, READ_BYTES);
    sent.push(request);
    return unique;
  };
  let read = 0;
  /** What was answered since it was last asked. */
  const replies = (): Reply[] => {
    const found: Reply[] = [];
    for (
      const header = Buffer.alloc(OUT_HEADER_BYTES);
      readSync(fd, header, 0, OUT_HEADER_BYTES, read) > 0;
    ) {
      const data = Buffer.alloc(header.readUInt32LE(0) - OUT_HEADER_BYTES);
      readSync(fd, data, 0, data.length, read + OUT_HEADER_BYTES);
      read += OUT_HEADER_BYTES + data.length;
      found.push({ unique: header.readUInt32LE(8), error: header.readInt32LE(4), data });
    }
    return found;
  };
  const order = (): number[] => replies().map((reply) => reply.unique);
  return { inbox, send, replies, order, demanded };
}

const page = (byte: number, pages = 1): Uint8Array =>
  Uint8Array.from({ length: pages * PAGE }, (_, i) => (i % 7 === 0 ? i >> 3 : byte));

test('a read overtakes writes, and reads that are expected', () => {
  const { inbox, send, order } = inboxOf();
  const write = send(Opcode.WRITE, 0, 32, page(1, 32));
  inbox.expect(Uint32Array.of(100));
  const prefetch = send(Opcode.READ, 100, 1);
  const demand = send(Opcode.READ, 200, 1);
  while (inbox.receive());
  expect(order()).toEqual([demand]);
  while (inbox.work());
  expect(order()).toEqual([prefetch, write]);
  // Expected once.
  const again = send(Opcode.READ, 100, 1);
  inbox.receive();
  expect(order()).toEqual([again]);
  expect(inbox.work()).toBe(false);
});

test('reads that nobody expected are told, page by page, those that were expected are not', () => {
  const { inbox, send, order, demanded } = inboxOf();
  inbox.expect(Uint32Array.of(10, 11, 13, 21));
  // The kernel joins what lies together: of the first only slot 12 was not expected, of the second only the last was.
  const joined = send(Opcode.READ, 10, 4);
  const urgent = send(Opcode.READ, 20, 2);
  const again = send(Opcode.READ, 10, 1);
  while (inbox.receive());
  expect(order()).toEqual([urgent, again]);
  while (inbox.work());
  expect(order()).toEqual([joined]);
  expect(demanded).toEqual([12, 20, 10]);
  send(Opcode.READ, 21, 1);
  send(Opcode.READ, SLOTS - 1, 3);
  while (inbox.receive());
  expect(demanded.slice(3)).toEqual([21, SLOTS - 1]);
});

test('what was expected and not read is forgotten after two seconds', () => {
  const announced = new Announced(100);
  announced.add(Uint32Array.of(1, 2, 99, 100), 1000);
  announced.add(Uint32Array.of(3), 2500);
  announced.age(2999);
  expect([1, 1, 50].map((slot) => announced.take(slot))).toEqual([true, false, false]);
  announced.age(3000);
  expect([2, 99, 3].map((slot) => announced.take(slot))).toEqual([false, false, true]);
});

test('neither writes nor expected reads wait for the others to end', () => {
  const { inbox, send, order } = inboxOf();
  const written = [0, 1, 2].map((slot) => send(Opcode.WRITE, slot, 1, page(slot)));
  inbox.expect(Uint32Array.of(10, 11, 12));
  const read = [10, 11, 12].map((slot) => send(Opcode.READ, slot, 1));
  while (inbox.receive());
  while (inbox.work());
  const mixed = order();
  expect(mixed.filter((unique) => written.includes(unique))).toEqual(written);
  expect(mixed.filter((unique) => read.includes(unique))).toEqual(read);
  const places = (of: number[]) => of.map((unique) => mixed.indexOf(unique));
  expect(Math.min(...places(written))).toBeLessThan(Math.max(...places(read)));
  expect(Math.min(...places(read))).toBeLessThan(Math.max(...places(written)));
});

test('a discard comes after the writes before it', () => {
  const { inbox, send, order } = inboxOf();
  const write = send(Opcode.WRITE, 5, 16, page(3, 16));
  const discard = send(Opcode.FALLOCATE, 5, 16);
  while (inbox.receive());
  expect(order()).toEqual([write, discard]);
  expect(bench.tables.slotObject.slice(5, 21).every((object) => object === 0)).toBe(true);
});

test('nothing is lost or answered twice, however requests and work alternate', () => {
  const random = testRandom('pager-inbox');
  const { inbox, send, replies } = inboxOf();
  /** What each slot holds; slots of requests in flight are left alone, as the kernel does. */
  const content = new Map<number, Uint8Array>();
  const flying = new Map<number, { slot: number; pages: number; reads: boolean }>();
  const busy = new Set<number>();
  const settle = (): void => {
    for (const { unique, error, data } of replies()) {
      const request = flying.get(unique);
      expect(request, `reply ${unique}`).toBeDefined();
      const { slot, pages, reads } = request!;
      flying.delete(unique);
      expect(error).toBe(0);
      for (let i = 0; i < pages; i++) {
        busy.delete(slot + i);
        if (!reads) continue;
        const expected = content.get(slot + i) ?? new Uint8Array(PAGE);
        expect(data.subarray(i * PAGE, (i + 1) * PAGE).equals(expected), `slot ${slot + i}`).toBe(true);
      }
    }
  };
  let most = 0;
  for (let step = 0; step < 6000; step++) {
    const reads = random.below(3) === 0;
    const pages = random.below(12) === 0 ? random.integer(1, MAX_IO / PAGE + 1) : 1;
    const slot = random.below(SLOTS - pages);
    const free = Array.from({ length: pages }, (_, i) => slot + i).every((one) => !busy.has(one));
    if (free) {
      for (let i = 0; i < pages; i++) busy.add(slot + i);
      if (reads && random.below(2) === 0) inbox.expect(Uint32Array.of(slot));
      const data = reads ? undefined : page(step, pages).map((byte, i) => byte ^ (i >> 12));
      flying.set(send(reads ? Opcode.READ : Opcode.WRITE, slot, pages, data), { slot, pages, reads });
      if (data) for (let i = 0; i < pages; i++) content.set(slot + i, data.slice(i * PAGE, (i + 1) * PAGE));
    }
    if (inbox.makeRoom()) inbox.receive();
    else inbox.work();
    // Phases in which more comes than is done, and the other way round.
    for (let i = random.below((step >> 9) % 2 === 0 ? 2 : 8); i > 0; i--) inbox.work();
    most = Math.max(most, flying.size);
    settle();
  }
  while ((inbox.makeRoom() && inbox.receive()) || inbox.work());
  settle();
  expect(flying.size).toBe(0);
  expect(most).toBeGreaterThan(100);
});
