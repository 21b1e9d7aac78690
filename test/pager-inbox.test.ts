import { closeSync, openSync, rmSync } from 'node:fs';
import { constants } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Ask, type FrontEndName } from '../src/pager/requests/channel.js';
import { MAX_IO } from '../src/pager/fuse/protocol.js';
import { Announced } from '../src/pager/requests/announced.js';
import { Inbox } from '../src/pager/requests/inbox.js';
import { Counter } from '../src/store/volatile.js';
import { playChannel } from './support/channels.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench, violations } from './support/store.js';

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

function inboxOf(name: FrontEndName) {
  const played = playChannel(name, bench, fd);
  const order = (): number[] => played.replies().map((reply) => reply.unique);
  /** What was read and not expected. */
  const demanded: number[] = [];
  const written: number[] = [];
  const reads = { note: (slot: number) => demanded.push(slot) };
  const inbox = new Inbox(played.channel, SLOTS, reads, { note: (slot) => written.push(slot) });
  return { ...played, inbox, order, demanded, written };
}

const page = (byte: number, pages = 1): Uint8Array =>
  Uint8Array.from({ length: pages * PAGE }, (_, i) => (i % 7 === 0 ? i >> 3 : byte));

describe.each(['fuse-loop', 'ublk', 'nbd'] as const)('requests of %s', (name) => {
  test('a read overtakes writes, and reads that are expected', () => {
    const { inbox, send, order } = inboxOf(name);
    const write = send(Ask.WRITE, 0, 32, page(1, 32));
    inbox.expect(Uint32Array.of(100));
    const prefetch = send(Ask.READ, 100, 1);
    const demand = send(Ask.READ, 200, 1);
    while (inbox.receive());
    expect(order()).toEqual([demand]);
    while (inbox.work());
    expect(order()).toEqual([prefetch, write]);
    // Expected once.
    const again = send(Ask.READ, 100, 1);
    inbox.receive();
    expect(order()).toEqual([again]);
    expect(inbox.work()).toBe(false);
  });

  test('writes are told page by page before they are answered', () => {
    const { inbox, send, order, written } = inboxOf(name);
    const write = send(Ask.WRITE, 40, 3, page(1, 3));
    inbox.receive();
    expect(written).toEqual([40, 41, 42]);
    expect(order()).toEqual([]);
    while (inbox.work());
    expect(order()).toEqual([write]);
    send(Ask.READ, 40, 3);
    inbox.receive();
    expect(written).toHaveLength(3);
  });

  test('reads that nobody expected are told, page by page, those that were expected are not', () => {
    const { inbox, send, order, demanded } = inboxOf(name);
    inbox.expect(Uint32Array.of(10, 11, 13, 21));
    // The kernel joins what lies together: of the first only slot 12 was not expected, of the second only the last was.
    const joined = send(Ask.READ, 10, 4);
    const urgent = send(Ask.READ, 20, 2);
    const again = send(Ask.READ, 10, 1);
    while (inbox.receive());
    expect(order()).toEqual([urgent, again]);
    while (inbox.work());
    expect(order()).toEqual([joined]);
    expect(demanded).toEqual([12, 20, 10]);
    send(Ask.READ, 21, 1);
    send(Ask.READ, SLOTS - 1, 3);
    while (inbox.receive());
    expect(demanded.slice(3)).toEqual([21, SLOTS - 1]);
  });

  test('neither writes nor expected reads wait for the others to end', () => {
    const { inbox, send, order } = inboxOf(name);
    const written = [0, 1, 2].map((slot) => send(Ask.WRITE, slot, 1, page(slot)));
    inbox.expect(Uint32Array.of(10, 11, 12));
    const read = [10, 11, 12].map((slot) => send(Ask.READ, slot, 1));
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
    const { inbox, send, order } = inboxOf(name);
    const write = send(Ask.WRITE, 5, 16, page(3, 16));
    const discard = send(Ask.DISCARD, 5, 16);
    while (inbox.receive());
    expect(order()).toEqual([write, discard]);
    expect(bench.tables.slotObject.slice(5, 21).every((object) => object === 0)).toBe(true);
  });

  test('nothing is lost or answered twice, however requests and work alternate', () => {
    const random = testRandom('pager-inbox');
    const { inbox, send, replies, most: depth } = inboxOf(name);
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
      if (free && flying.size < depth) {
        for (let i = 0; i < pages; i++) busy.add(slot + i);
        if (reads && random.below(2) === 0) inbox.expect(Uint32Array.of(slot));
        const data = reads ? undefined : page(step, pages).map((byte, i) => byte ^ (i >> 12));
        flying.set(send(reads ? Ask.READ : Ask.WRITE, slot, pages, data), { slot, pages, reads });
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

  test('a request that the store refuses in its middle leaves nothing in any of its slots', () => {
    const random = testRandom('pager-inbox-refuse');
    bench.close();
    bench = new StoreBench({ slots: SLOTS, arenaBytes: 32 * 65536 });
    const { inbox, send, replies, store } = inboxOf(name);
    const write = (slot: number, data: Uint8Array): number => {
      send(Ask.WRITE, slot, data.length / PAGE, data);
      while ((inbox.makeRoom() && inbox.receive()) || inbox.work());
      return replies()[0].error;
    };
    // They take no room, so free none.
    expect(write(0, new Uint8Array(8 * PAGE).fill(7))).toBe(0);
    let next = 8;
    while (next < SLOTS && write(next, random.bytes(PAGE)) === 0) next++;
    expect(next).toBeLessThan(SLOTS);
    const before = bench.shared.counters[Counter.REFUSED];
    expect(write(0, random.bytes(8 * PAGE).fill(9, 0, PAGE))).toBe(-constants.errno.ENOSPC);
    expect(bench.shared.counters[Counter.REFUSED] - before).toBe(8);
    expect(bench.tables.slotObject.slice(0, 8).every((object) => object === 0)).toBe(true);
    expect(violations({ tables: bench.tables, store })).toEqual([]);
  });
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
