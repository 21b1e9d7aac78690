import { closeSync, openSync } from 'node:fs';
import { randomFillSync } from 'node:crypto';
import type { Workspace } from '../codec/kernels.js';
import { close } from '../native/files.js';
import { PAGE } from '../native/libc.js';
import { memfdCreate, munmap } from '../native/memory.js';
import { layout, SEGMENT, type Geometry } from '../store/layout.js';
import { PackSet } from '../store/packs.js';
import { recover } from '../store/recovery.js';
import { Store } from '../store/store.js';
import { formatStore, Tables } from '../store/tables.js';
import { createVolatile, Volatile, volatileBytes } from '../store/volatile.js';
import { In, Opcode, PUNCH_HOLE } from './fuse-protocol.js';
import { FuseServer } from './fuse-server.js';
import { FUSE_BYTES, Inbox, REPLY_AT } from './inbox.js';
import { createReadLog, READ_LOG_BYTES, ReadLogWriter } from './read-log.js';

const GEOMETRY: Geometry = { slots: 128, arenaBytes: 32 * SEGMENT };
const PAGES = 8;
/** Enough for V8 to compile what it calls often. */
const ROUNDS = 64;

/**
 * Does on a small store of its own what the data loop will do on the real one, so that nothing has to be loaded,
 * compiled or allocated at the moment of a takeover.
 */
export function warmUp(workspace: Workspace): void {
  const fd = memfdCreate('agentzip-warm-up');
  const sink = openSync('/dev/null', 'w');
  const mapping = formatStore(fd, GEOMETRY);
  const tables = new Tables(mapping);
  const indexes = createVolatile(GEOMETRY, 1);
  const log = createReadLog();
  try {
    const shared = new Volatile(indexes, tables);
    const options = { fd, stagingBytes: 16 * PAGE, scratch: FUSE_BYTES };
    const store = new Store(tables, shared, new PackSet(), workspace, options);
    recover(store, shared);
    exercise(workspace, new FuseServer(store, workspace, sink, REPLY_AT), new ReadLogWriter(log.address));
    recover(store, shared);
    workspace.bytes.fill(0, 0, FUSE_BYTES);
    // Twice: each half of the young generation is touched by one of them.
    for (let times = 0; times < 2; times++) (globalThis as { gc?: () => void }).gc?.();
  } finally {
    munmap(indexes.address, volatileBytes(indexes));
    munmap(mapping.address, layout(GEOMETRY).bytes);
    munmap(log.address, READ_LOG_BYTES);
    close(log.fd);
    close(indexes.fd);
    close(fd);
    closeSync(sink);
  }
}

function exercise(workspace: Workspace, server: FuseServer, log: ReadLogWriter): void {
  const { words, bytes } = workspace;
  // Each request is put where it would be read to: an empty inbox reads to offset 0.
  const inbox = new Inbox(server, workspace, () => words[In.LENGTH / 4], GEOMETRY.slots, log);
  const request = (opcode: number, slot: number, length: number): void => {
    words.fill(0, 0, In.WRITE_DATA / 4);
    words[In.LENGTH / 4] = In.WRITE_DATA + (opcode === Opcode.WRITE ? length : 0);
    words[In.OPCODE / 4] = opcode;
    words[In.OFFSET / 4] = slot * PAGE;
    words[In.SIZE / 4] = length;
    if (opcode === Opcode.FALLOCATE) words[In.FALLOCATE_MODE / 4] = PUNCH_HOLE;
    if (inbox.makeRoom()) inbox.receive();
    while (inbox.work());
  };
  for (let round = 0; round < ROUNDS; round++) {
    const data = bytes.subarray(In.WRITE_DATA, In.WRITE_DATA + PAGES * PAGE);
    randomFillSync(data.subarray(0, PAGE));
    // Half random, half repetitive, then pages of one word: raw, compressed, same-filled.
    data.copyWithin(PAGE, 0, PAGE / 2);
    data.fill(round, 2 * PAGE);
    const slot = (round % (GEOMETRY.slots / PAGES)) * PAGES;
    request(Opcode.WRITE, slot, PAGES * PAGE);
    if (round % 2 === 0) inbox.expect(Uint32Array.of(slot));
    request(Opcode.READ, slot, PAGES * PAGE);
    inbox.age();
    if (round % 4 === 0) request(Opcode.FALLOCATE, slot, PAGES * PAGE);
  }
}
