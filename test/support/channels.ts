import { readSync } from 'node:fs';
import { Workspace } from '../../src/codec/kernels.js';
import { Ask, NONE, type Channel, type FrontEndName } from '../../src/pager/requests/channel.js';
import { In, OUT_HEADER_BYTES, Opcode, PUNCH_HOLE, READ_BYTES } from '../../src/pager/fuse/protocol.js';
import { UBLK_BYTES, UblkChannel } from '../../src/pager/ublk/channel.js';
import { DEPTH, Operation, Request, SECTOR } from '../../src/pager/ublk/protocol.js';
import type { RequestQueue } from '../../src/pager/ublk/queue.js';
import { Store, STORE_BYTES } from '../../src/store/store.js';
import { fuseServerOver } from './fuse-server.js';
import { playNbd } from './nbd-channel.js';
import { PAGE, type StoreBench } from './store.js';

type Asked = Exclude<Ask, typeof Ask.OTHER>;

export interface Reply {
  unique: number;
  error: number;
  data: Buffer;
}

/** A channel whose requests come from a list, as the kernel would send them, and whose replies are kept. */
export interface PlayedChannel {
  channel: Channel;
  store: Store;
  /** Most requests in flight. */
  most: number;
  /** Number of the request. */
  send(ask: Asked, slot: number, pages: number, data?: Uint8Array): number;
  /** What was answered since it was last asked. */
  replies(): Reply[];
}

/** `fd`: a file for replies, where they go to one. */
export const playChannel = (name: FrontEndName, bench: StoreBench, fd: number): PlayedChannel =>
  ({ ublk: () => playUblk(bench), nbd: () => playNbd(bench), 'fuse-loop': () => playFuse(bench, fd) })[
    name
  ]();

function playFuse(bench: StoreBench, fd: number): PlayedChannel {
  const { workspace, store, channelOver } = fuseServerOver(bench, fd);
  const sent: Buffer[] = [];
  const channel = channelOver((address) => {
    const request = sent.shift();
    if (request === undefined) return 0;
    workspace.bytes.set(request, address - workspace.address);
    return request.length;
  });
  const opcodes = { [Ask.READ]: Opcode.READ, [Ask.WRITE]: Opcode.WRITE, [Ask.DISCARD]: Opcode.FALLOCATE };
  let unique = 0;
  let read = 0;
  return {
    channel,
    store,
    most: 1024,
    send(ask, slot, pages, data = new Uint8Array()) {
      const request = Buffer.alloc(READ_BYTES + data.length);
      request.writeUInt32LE(request.length, In.LENGTH);
      request.writeUInt32LE(opcodes[ask], In.OPCODE);
      request.writeUInt32LE(++unique, In.UNIQUE);
      request.writeUInt32LE(slot * PAGE, In.OFFSET);
      request.writeUInt32LE(pages * PAGE, In.SIZE);
      if (ask === Ask.DISCARD) request.writeUInt32LE(PUNCH_HOLE, In.FALLOCATE_MODE);
      request.set(data, READ_BYTES);
      sent.push(request);
      return unique;
    },
    replies() {
      const found: Reply[] = [];
      const header = Buffer.alloc(OUT_HEADER_BYTES);
      while (readSync(fd, header, 0, OUT_HEADER_BYTES, read) > 0) {
        const data = Buffer.alloc(header.readUInt32LE(0) - OUT_HEADER_BYTES);
        readSync(fd, data, 0, data.length, read + OUT_HEADER_BYTES);
        read += OUT_HEADER_BYTES + data.length;
        found.push({ unique: header.readUInt32LE(8), error: header.readInt32LE(4), data });
      }
      return found;
    },
  };
}

function playUblk(bench: StoreBench): PlayedChannel {
  const workspace = new Workspace(UBLK_BYTES + STORE_BYTES);
  const options = { fd: bench.fd, stagingBytes: 1 << 30, scratch: UBLK_BYTES };
  const store = new Store(bench.tables, bench.shared, bench.packs, workspace, options);
  const descriptors = new Uint32Array(DEPTH * Request.WORDS);
  const free = Array.from({ length: DEPTH }, (_, tag) => tag);
  const sent: number[] = [];
  const flying = new Map<number, { unique: number; data: Buffer }>();
  let found: Reply[] = [];
  let unique = 0;
  const queue: RequestQueue = {
    descriptors,
    gone: false,
    next: () => sent.shift() ?? NONE,
    complete(tag, result) {
      const request = flying.get(tag);
      if (request === undefined) throw new Error(`tag ${tag} is answered twice`);
      flying.delete(tag);
      free.push(tag);
      found.push({ ...request, error: Math.min(0, result) });
    },
    fetch(tag, offset, address, length) {
      workspace.bytes.set(
        flying.get(tag)!.data.subarray(offset, offset + length),
        address - workspace.address,
      );
      return true;
    },
    give(tag, address, length) {
      const at = address - workspace.address;
      flying.get(tag)!.data.set(workspace.bytes.subarray(at, at + length));
      return true;
    },
    wait: () => false,
  };
  const operations = {
    [Ask.READ]: Operation.READ,
    [Ask.WRITE]: Operation.WRITE,
    [Ask.DISCARD]: Operation.DISCARD,
  };
  return {
    channel: new UblkChannel(store, workspace, queue, () => {}),
    store,
    most: DEPTH,
    send(ask, slot, pages, data) {
      const tag = free.shift();
      if (tag === undefined) throw new Error('no tag is free');
      const at = tag * Request.WORDS;
      descriptors[at + Request.OPERATION] = operations[ask];
      descriptors[at + Request.SECTORS] = (pages * PAGE) / SECTOR;
      descriptors[at + Request.START] = (slot * PAGE) / SECTOR;
      flying.set(tag, { unique: ++unique, data: Buffer.from(data ?? new Uint8Array(pages * PAGE)) });
      sent.push(tag);
      return unique;
    },
    replies() {
      const now = found;
      found = [];
      return now;
    },
  };
}
