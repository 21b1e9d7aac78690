import { closeSync, openSync } from 'node:fs';
import { randomFillSync } from 'node:crypto';
import type { Workspace } from '../../codec/kernels.js';
import { close } from '../../native/files.js';
import { PAGE } from '../../native/libc.js';
import { memfdCreate, munmap } from '../../native/memory.js';
import { layout, SEGMENT, type Geometry } from '../../store/layout.js';
import { PackSet } from '../../store/packs.js';
import { recover } from '../../store/recovery.js';
import { Store } from '../../store/store.js';
import { formatStore, Tables } from '../../store/tables.js';
import { createVolatile, Volatile, volatileBytes } from '../../store/volatile.js';
import { Ask, type Channel, type ChannelPlan, type FrontEndName } from '../requests/channel.js';
import { channelBytes } from '../front-ends.js';
import { FuseChannel, REPLY_AT } from '../fuse/channel.js';
import { In, Opcode, PUNCH_HOLE } from '../fuse/protocol.js';
import { FuseServer } from '../fuse/server.js';
import { Inbox } from '../requests/inbox.js';
import { NbdChannel } from '../nbd/channel.js';
import type { Link } from '../nbd/link.js';
import * as Nbd from '../nbd/protocol.js';
import { UblkChannel } from '../ublk/channel.js';
import { Operation, Request, SECTOR } from '../ublk/protocol.js';
import type { RequestQueue } from '../ublk/queue.js';
import { createSlotLog, SLOT_LOG_BYTES, SlotLogWriter } from '../requests/slot-log.js';

const GEOMETRY: Geometry = { slots: 128, arenaBytes: 32 * SEGMENT };
const PAGES = 8;
/** Enough for V8 to compile what it calls often. */
const ROUNDS = 64;

/** A channel whose next request is what it is told, each put where it would come to. */
interface Played {
  channel: Channel;
  /** Where the data of a write is, in the workspace. */
  data: number;
  play(ask: Ask, slot: number, length: number): void;
}

/**
 * Does on a small store of its own what the data loop will do on the real one, so that nothing has to be loaded,
 * compiled or allocated at the moment of a takeover.
 */
export function warmUp(workspace: Workspace, plan: ChannelPlan): void {
  const fd = memfdCreate('agentzip-warm-up');
  const sink = openSync('/dev/null', 'w');
  const mapping = formatStore(fd, GEOMETRY);
  const tables = new Tables(mapping);
  const indexes = createVolatile(GEOMETRY, 1);
  const log = createSlotLog();
  try {
    const shared = new Volatile(indexes, tables);
    const scratch = channelBytes(plan);
    const store = new Store(tables, shared, new PackSet(), workspace, {
      fd,
      stagingBytes: 16 * PAGE,
      scratch,
    });
    recover(store, shared);
    const played = play(plan.frontEnd, store, workspace, sink);
    exercise(workspace, played, new SlotLogWriter(log.address));
    recover(store, shared);
    workspace.bytes.fill(0, 0, scratch);
    // Twice: each half of the young generation is touched by one of them.
    for (let times = 0; times < 2; times++) (globalThis as { gc?: () => void }).gc?.();
  } finally {
    munmap(indexes.address, volatileBytes(indexes));
    munmap(mapping.address, layout(GEOMETRY).bytes);
    munmap(log.address, SLOT_LOG_BYTES);
    close(log.fd);
    close(indexes.fd);
    close(fd);
    closeSync(sink);
  }
}

function play(name: FrontEndName, store: Store, workspace: Workspace, sink: number): Played {
  switch (name) {
    case 'ublk':
      return playUblk(store, workspace);
    case 'nbd':
      return playNbd(store, workspace);
    case 'fuse-loop':
      return playFuse(store, workspace, sink);
  }
}

function playNbd(store: Store, workspace: Workspace): Played {
  const numbers = new DataView(workspace.bytes.buffer);
  const types = { [Ask.READ]: Nbd.Type.READ, [Ask.WRITE]: Nbd.Type.WRITE, [Ask.DISCARD]: Nbd.Type.TRIM };
  let bytes = 0;
  const link: Link = {
    gone: false,
    receive: () => bytes, // it is there
    send: () => {},
    wait: () => false,
    replace: () => {},
  };
  return {
    channel: new NbdChannel(store, workspace, link),
    data: Nbd.Request.BYTES,
    play(ask, slot, length) {
      if (ask === Ask.OTHER) return;
      numbers.setUint32(Nbd.Request.MAGIC, Nbd.REQUEST_MAGIC);
      numbers.setUint16(Nbd.Request.TYPE, types[ask]);
      numbers.setUint32(Nbd.Request.FROM + 4, slot * PAGE);
      numbers.setUint32(Nbd.Request.LENGTH, length);
      bytes = Nbd.Request.BYTES + (ask === Ask.WRITE ? length : 0);
    },
  };
}

function playFuse(store: Store, workspace: Workspace, sink: number): Played {
  const { words } = workspace;
  const server = new FuseServer(store, workspace, sink, REPLY_AT);
  const opcodes = { [Ask.READ]: Opcode.READ, [Ask.WRITE]: Opcode.WRITE, [Ask.DISCARD]: Opcode.FALLOCATE };
  return {
    // Each request is put where it would be read to: an empty inbox reads to offset 0.
    channel: new FuseChannel(server, workspace, sink, () => words[In.LENGTH / 4]),
    data: In.WRITE_DATA,
    play(ask, slot, length) {
      if (ask === Ask.OTHER) return;
      words.fill(0, 0, In.WRITE_DATA / 4);
      words[In.LENGTH / 4] = In.WRITE_DATA + (ask === Ask.WRITE ? length : 0);
      words[In.OPCODE / 4] = opcodes[ask];
      words[In.OFFSET / 4] = slot * PAGE;
      words[In.SIZE / 4] = length;
      if (ask === Ask.DISCARD) words[In.FALLOCATE_MODE / 4] = PUNCH_HOLE;
    },
  };
}

function playUblk(store: Store, workspace: Workspace): Played {
  const descriptors = new Uint32Array(Request.WORDS);
  const operations = {
    [Ask.READ]: Operation.READ,
    [Ask.WRITE]: Operation.WRITE,
    [Ask.DISCARD]: Operation.DISCARD,
  };
  const queue: RequestQueue = {
    descriptors,
    gone: false,
    next: () => 0,
    complete: () => {},
    fetch: () => true, // its first pages are there
    give: () => true,
    wait: () => false,
  };
  return {
    channel: new UblkChannel(store, workspace, queue, () => {}),
    data: 0,
    play(ask, slot, length) {
      if (ask === Ask.OTHER) return;
      descriptors[Request.OPERATION] = operations[ask];
      descriptors[Request.SECTORS] = length / SECTOR;
      descriptors[Request.START] = (slot * PAGE) / SECTOR;
    },
  };
}

function exercise(workspace: Workspace, { channel, data, play }: Played, log: SlotLogWriter): void {
  const { bytes } = workspace;
  const inbox = new Inbox(channel, GEOMETRY.slots, log, log);
  const request = (ask: Ask, slot: number): void => {
    play(ask, slot, PAGES * PAGE);
    if (inbox.makeRoom()) inbox.receive();
    while (inbox.work());
  };
  for (let round = 0; round < ROUNDS; round++) {
    const pages = bytes.subarray(data, data + PAGES * PAGE);
    randomFillSync(pages.subarray(0, PAGE));
    // Half random, half repetitive, then pages of one word: raw, compressed, same-filled.
    pages.copyWithin(PAGE, 0, PAGE / 2);
    pages.fill(round, 2 * PAGE);
    const slot = (round % (GEOMETRY.slots / PAGES)) * PAGES;
    request(Ask.WRITE, slot);
    if (round % 2 === 0) inbox.expect(Uint32Array.of(slot));
    request(Ask.READ, slot);
    inbox.age();
    if (round % 4 === 0) request(Ask.DISCARD, slot);
  }
}
