import { afterEach, beforeEach, expect, test } from 'vitest';
import { close } from '../src/native/files.js';
import { pidfdOpen } from '../src/native/process.js';
import { replaceDescriptor, shutdown, socketPair } from '../src/native/sockets.js';
import { packageRoot } from '../src/paths.js';
import { hasUnread } from '../src/pager/front-ends.js';
import { Ask, NONE } from '../src/pager/requests/channel.js';
import { Inbox } from '../src/pager/requests/inbox.js';
import { MAX_IO, Request, REQUEST_MAGIC, Type } from '../src/pager/nbd/protocol.js';
import { playNbd } from './support/nbd-channel.js';
import { testRandom } from './support/seed.js';
import { PAGE, StoreBench } from './support/store.js';
import { LONG, prepareGuest, runInGuest } from './support/vm.js';

const SLOTS = 2048;
const EINVAL = 22;
let bench: StoreBench;
beforeEach(() => (bench = new StoreBench({ slots: SLOTS, arenaBytes: 256 * 65536 })));
afterEach(() => bench.close());

function inboxOver() {
  const played = playNbd(bench);
  return { ...played, inbox: new Inbox(played.channel, SLOTS, { note: () => {} }, { note: () => {} }) };
}

const page = (byte: number, pages = 1): Uint8Array =>
  Uint8Array.from({ length: pages * PAGE }, (_, i) => (i % 7 === 0 ? i >> 3 : byte));

test('what came by a connection that was lost is neither answered nor stored', () => {
  const { inbox, send, replies, lose, strays } = inboxOver();
  const late = send(Ask.WRITE, 0, 32, page(1, 32));
  inbox.expect(Uint32Array.of(100));
  send(Ask.READ, 100, 1);
  while (inbox.makeRoom() && inbox.receive());
  inbox.work();
  inbox.work();
  expect(replies().every(({ unique }) => unique !== late)).toBe(true);
  lose();
  while (inbox.makeRoom() && inbox.receive());
  // The kernel sends it again.
  const again = send(Ask.WRITE, 0, 32, page(2, 32));
  const read = send(Ask.READ, 0, 32);
  while (inbox.makeRoom() && (inbox.receive() || inbox.work()));
  const after = replies();
  expect(after.map(({ unique }) => unique).sort()).toEqual([again, read].sort());
  expect(strays).toEqual([]);
  expect(after.some(({ unique }) => unique === late)).toBe(false);
  send(Ask.READ, 0, 32);
  inbox.makeRoom();
  inbox.receive();
  expect(replies()[0].data.equals(page(2, 32))).toBe(true);
});

test('half a request at the end of a connection does not disturb the next', () => {
  const { inbox, send, sendRaw, replies, lose } = inboxOver();
  const half = Buffer.alloc(Request.BYTES + 5000);
  half.writeUInt32BE(REQUEST_MAGIC, Request.MAGIC);
  half.writeUInt16BE(Type.WRITE, Request.TYPE);
  half.writeUInt32BE(2 * PAGE, Request.LENGTH);
  sendRaw(half);
  inbox.makeRoom();
  expect(inbox.receive()).toBe(false);
  lose();
  inbox.makeRoom();
  expect(inbox.receive()).toBe(false);
  const read = send(Ask.READ, 7, 1);
  inbox.makeRoom();
  inbox.receive();
  expect(replies()).toEqual([{ unique: read, error: 0, data: Buffer.alloc(PAGE) }]);
});

test('a write that is too long is refused, and what follows it is understood', () => {
  const { inbox, send, sendRaw, replies, strays } = inboxOver();
  const long = Buffer.alloc(Request.BYTES + 16 * MAX_IO, 0xa5);
  long.fill(0, 0, Request.BYTES);
  long.writeUInt32BE(REQUEST_MAGIC, Request.MAGIC);
  long.writeUInt16BE(Type.WRITE, Request.TYPE);
  long.writeUInt32BE(16 * MAX_IO, Request.LENGTH);
  sendRaw(long);
  const read = send(Ask.READ, 7, 1);
  for (let turn = 0; turn < 100; turn++) if (inbox.makeRoom()) inbox.receive();
  expect(strays).toEqual([EINVAL]);
  expect(replies()).toEqual([{ unique: read, error: 0, data: Buffer.alloc(PAGE) }]);
});

test('a request to disconnect ends it; bytes that are no request are not taken for one', () => {
  const played = playNbd(bench);
  const end = Buffer.alloc(Request.BYTES);
  end.writeUInt32BE(REQUEST_MAGIC, Request.MAGIC);
  end.writeUInt16BE(Type.DISCONNECT, Request.TYPE);
  played.sendRaw(end);
  played.channel.hasRoom(NONE);
  expect(played.channel.take()).toBe(NONE);
  expect(played.channel.gone).toBe(true);
  const other = playNbd(bench);
  other.sendRaw(Buffer.alloc(Request.BYTES, 1));
  other.channel.hasRoom(NONE);
  expect(() => other.channel.take()).toThrow(/no request/);
});

test('what the pager has not read is seen from outside, on the connection that it has now', () => {
  const self = pidfdOpen(process.pid);
  const [ours, theirs] = socketPair();
  const plan = { frontEnd: 'nbd', fd: ours, index: 0, backend: '' } as const;
  try {
    expect(hasUnread(plan, self)).toBe(false);
    // The driver has ended the connection, and nobody sees it.
    shutdown(theirs);
    expect(hasUnread(plan, self)).toBe(true);
    const [next, driver] = socketPair();
    replaceDescriptor(ours, next);
    close(next);
    expect(hasUnread(plan, self)).toBe(false);
    close(driver);
    expect(hasUnread(plan, self)).toBe(true);
    // Of the others the kernel says it itself.
    expect(hasUnread({ frontEnd: 'fuse-loop', fd: ours }, self)).toBe(false);
  } finally {
    for (const fd of [self, ours, theirs]) close(fd);
  }
});

const GUEST_MS = 900_000;
/** Memory of the process that checks its pages. */
const MIB = 4;

test.runIf(LONG)(
  'swapped pages outlive kills of the pager and one that hangs; of pager and standby together nothing stays behind',
  { timeout: GUEST_MS + 10_000 },
  async () => {
    const seed = testRandom('pager-nbd').below(2 ** 30);
    const limits = { kills: 20, hangs: 4, budgetMs: 300_000, least: 5 };
    const load = { frontEnd: 'nbd', seed, processes: 1, mib: MIB, spreadMs: 400, ends: 'all', verbose: true };
    const options = JSON.stringify({ ...load, ...limits });
    const script = `${process.execPath} ${packageRoot}/test/fixtures/pager-kills.mjs '${options}'`;
    const guest = prepareGuest();
    if (guest === null) throw new Error('no test guest');
    const { lines, status } = await runInGuest(guest, script, { timeoutMs: GUEST_MS });
    expect(status, lines.join('\n')).toBe(0);
    const result = JSON.parse(lines.find((line) => line.startsWith('{"kills"')) ?? '{}');
    expect(result).toMatchObject({ takeovers: result.kills + result.hung, corruptPages: 0 });
    expect(result.kills).toBeGreaterThanOrEqual(1);
    expect(result.pagesChecked).toBeGreaterThan(MIB * 256);
  },
);
