import { Workspace } from '../../src/codec/kernels.js';
import { Ask } from '../../src/pager/requests/channel.js';
import { NBD_BYTES, NbdChannel } from '../../src/pager/nbd/channel.js';
import { LOST, type Link } from '../../src/pager/nbd/link.js';
import { Reply, REPLY_MAGIC, Request, REQUEST_MAGIC, Type } from '../../src/pager/nbd/protocol.js';
import { Store, STORE_BYTES } from '../../src/store/store.js';
import type { PlayedChannel, Reply as Answer } from './channels.js';
import { PAGE, type StoreBench } from './store.js';

const TYPES = { [Ask.READ]: Type.READ, [Ask.WRITE]: Type.WRITE, [Ask.DISCARD]: Type.TRIM };
/** What a Unix stream socket holds of large writes, about. */
const SOCKET_BYTES = 212_992;

export interface PlayedNbd extends PlayedChannel {
  /** Bytes as they are, behind all that was sent. */
  sendRaw(bytes: Uint8Array): void;
  /** The connection ends, with all that was sent and not received. */
  lose(): void;
  /** The errors of all replies so far that were not asked for. */
  readonly strays: number[];
}

/** A channel over a stream, of which each read gets what a socket would give. Replies are taken apart as the kernel does. */
export function playNbd(bench: StoreBench): PlayedNbd {
  const workspace = new Workspace(NBD_BYTES + STORE_BYTES);
  const options = { fd: bench.fd, stagingBytes: 1 << 30, scratch: NBD_BYTES };
  const store = new Store(bench.tables, bench.shared, bench.packs, workspace, options);
  let stream = Buffer.alloc(0);
  let lost = false;
  let unique = 0;
  let found: Answer[] = [];
  /** Bytes that the answer to each brings. */
  const expected = new Map<number, number>();
  const strays: number[] = [];
  const link: Link = {
    gone: false,
    receive(address, room) {
      if (lost) {
        lost = false;
        return LOST;
      }
      const piece = stream.subarray(0, Math.min(room, SOCKET_BYTES));
      workspace.bytes.set(piece, address - workspace.address);
      stream = stream.subarray(piece.length);
      return piece.length;
    },
    send(address, length) {
      const at = address - workspace.address;
      const bytes = Buffer.from(workspace.bytes.subarray(at, at + length));
      if (bytes.readUInt32BE(Reply.MAGIC) !== REPLY_MAGIC) throw new Error('no reply');
      const number = Number(bytes.readBigUInt64LE(Reply.COOKIE));
      const error = bytes.readUInt32BE(Reply.ERROR);
      const data = bytes.subarray(Reply.BYTES);
      if (!expected.has(number)) return void strays.push(error);
      if (data.length !== (error === 0 ? expected.get(number) : 0))
        throw new Error('a reply of wrong length');
      expected.delete(number);
      found.push({ unique: number, error: 0 - error, data });
    },
    wait: () => false,
    replace: () => {},
  };
  return {
    channel: new NbdChannel(store, workspace, link),
    store,
    most: 1024,
    strays,
    send(ask, slot, pages, data = new Uint8Array()) {
      const header = Buffer.alloc(Request.BYTES);
      header.writeUInt32BE(REQUEST_MAGIC, Request.MAGIC);
      header.writeUInt16BE(TYPES[ask], Request.TYPE);
      header.writeBigUInt64LE(BigInt(++unique), Request.COOKIE);
      header.writeBigUInt64BE(BigInt(slot * PAGE), Request.FROM);
      header.writeUInt32BE(pages * PAGE, Request.LENGTH);
      stream = Buffer.concat([stream, header, data]);
      expected.set(unique, ask === Ask.READ ? pages * PAGE : 0);
      return unique;
    },
    replies() {
      const now = found;
      found = [];
      return now;
    },
    sendRaw(bytes) {
      stream = Buffer.concat([stream, bytes]);
    },
    lose() {
      lost = true;
      stream = Buffer.alloc(0);
      expected.clear();
    },
  };
}
