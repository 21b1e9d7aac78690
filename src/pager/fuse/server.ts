import { constants } from 'node:os';
import type { Workspace } from '../../codec/kernels.js';
import { PAGE } from '../../native/libc.js';
import { write } from '../../native/files.js';
import type { Store } from '../../store/store.js';
import { ANSWERED } from '../requests/channel.js';
import * as fuse from './protocol.js';

const { EINVAL, EIO, ENOENT, ENOSPC, ENOSYS, EOPNOTSUPP } = constants.errno;
const { In, Opcode } = fuse;

/** A reply, whose data is page aligned. */
export const REPLY_BYTES = PAGE + fuse.MAX_IO;
const HEADER_AT = PAGE - fuse.OUT_HEADER_BYTES;

/** Attributes never change: let the kernel keep them. Seconds. */
const FOREVER = 0x7fffffff;

/** A file system of one file, whose pages are the store's slots. Answers requests in its workspace, without allocating. */
export class FuseServer {
  private readonly words: Uint32Array;
  private readonly signed: Int32Array;
  private readonly half: Uint16Array;
  /** Offsets of the reply, and of its data. */
  private readonly out: number;
  private readonly data: number;
  private readonly outAddress: number;
  /** Offset of the request that is answered now. */
  private at = 0;

  /** `reply`: where in the workspace its REPLY_BYTES are; page aligned. */
  constructor(
    private readonly store: Store,
    workspace: Workspace,
    private readonly fd: number,
    reply: number,
  ) {
    this.out = reply + HEADER_AT;
    this.data = reply + PAGE;
    this.words = workspace.words;
    this.signed = new Int32Array(workspace.words.buffer);
    this.half = new Uint16Array(workspace.words.buffer);
    this.outAddress = workspace.address + this.out;
  }

  /** Answers the request at `at` of the workspace, which is no WRITE. */
  answer(at: number): void {
    this.at = at;
    switch (this.word(In.OPCODE)) {
      case Opcode.READ:
        return this.read(this.number(In.OFFSET), this.word(In.SIZE));
      case Opcode.FALLOCATE:
        return this.fallocate();
      case Opcode.INIT:
        return this.init();
      case Opcode.LOOKUP:
        return this.lookup();
      case Opcode.GETATTR:
      case Opcode.SETATTR:
        return this.getattr();
      case Opcode.OPEN:
      case Opcode.OPENDIR:
        this.clear(16);
        this.words[this.data / 4 + 2] = this.word(In.OPCODE) === Opcode.OPEN ? fuse.FOPEN_DIRECT_IO : 0;
        return this.reply(0, 16);
      case Opcode.STATFS:
        this.clear(80);
        return this.reply(0, 80);
      case Opcode.RELEASE:
      case Opcode.RELEASEDIR:
      case Opcode.FLUSH:
      case Opcode.FSYNC:
      case Opcode.DESTROY:
        return this.reply(0, 0);
      case Opcode.FORGET:
      case Opcode.BATCH_FORGET:
      case Opcode.INTERRUPT:
        return; // no answer expected
      default:
        return this.reply(-ENOSYS, 0);
    }
  }

  /**
   * Stores up to `limit` pages of the WRITE at `at`, of which `done` are stored. Returns how many are stored now, or
   * ANSWERED.
   */
  write(at: number, done: number, limit: number): number {
    this.at = at;
    const offset = this.number(In.OFFSET);
    const size = this.word(In.SIZE);
    const slot = offset / PAGE;
    const count = size / PAGE;
    const beyond = slot + count > this.store.tables.slots;
    if (offset % PAGE !== 0 || size % PAGE !== 0 || size > fuse.MAX_IO || beyond) {
      this.reply(-EINVAL, 0);
      return ANSWERED;
    }
    const end = Math.min(count, done + limit);
    for (let i = done; i < end; i++) {
      if (this.store.write(slot + i, at + In.WRITE_DATA + i * PAGE)) continue;
      // The kernel takes the whole request as failed.
      this.store.refuse(slot, count);
      this.reply(-ENOSPC, 0);
      return ANSWERED;
    }
    if (end < count) return end;
    this.words[this.data / 4] = size;
    this.words[this.data / 4 + 1] = 0;
    this.reply(0, 8);
    return ANSWERED;
  }

  /**
   * Asks the kernel for the requests that a server before this one has taken and not answered. Answering one again
   * that it had half done changes nothing. False where the kernel can not (before 6.9).
   */
  resend(): boolean {
    const { words, out } = this;
    words[out / 4] = fuse.OUT_HEADER_BYTES;
    words[out / 4 + 1] = fuse.NOTIFY_RESEND;
    words[out / 4 + 2] = words[out / 4 + 3] = 0; // no unique number: a notification
    return write(this.fd, this.outAddress, fuse.OUT_HEADER_BYTES) >= 0;
  }

  private read(offset: number, size: number): void {
    if (offset % PAGE !== 0 || size % PAGE !== 0 || size > fuse.MAX_IO) return this.reply(-EINVAL, 0);
    const slot = offset / PAGE;
    const count = Math.min(size / PAGE, Math.max(0, this.store.tables.slots - slot));
    for (let i = 0; i < count; i++) {
      if (!this.store.read(slot + i, this.data + i * PAGE)) return this.reply(-EIO, 0);
    }
    this.reply(0, count * PAGE);
  }

  private fallocate(): void {
    // Not ENOSYS: after that the kernel sends no discard any more either.
    const zeroes = (this.word(In.FALLOCATE_MODE) & (fuse.PUNCH_HOLE | fuse.ZERO_RANGE)) !== 0;
    if (!zeroes) return this.reply(-EOPNOTSUPP, 0);
    const offset = this.number(In.OFFSET);
    const end = offset + this.number(In.FALLOCATE_LENGTH);
    const first = Math.ceil(offset / PAGE);
    this.store.discard(first, Math.max(0, Math.floor(end / PAGE) - first));
    this.reply(0, 0);
  }

  private init(): void {
    const { words, half } = this;
    const at = this.data / 4;
    this.clear(64);
    const want = fuse.ASYNC_READ | fuse.BIG_WRITES | fuse.ASYNC_DIO | fuse.MAX_PAGES | fuse.INIT_EXT;
    const offered2 = this.word(In.INIT_MINOR) >= 36 ? this.word(In.INIT_FLAGS2) : 0;
    words[at] = 7;
    words[at + 1] = 40;
    words[at + 2] = fuse.MAX_IO;
    words[at + 3] = this.word(In.INIT_FLAGS) & want;
    half[at * 2 + 8] = 256; // max_background
    half[at * 2 + 9] = 192; // congestion threshold
    words[at + 5] = fuse.MAX_IO;
    words[at + 6] = 1; // time granularity, ns
    half[at * 2 + 14] = fuse.MAX_IO / PAGE;
    words[at + 8] = offered2 & fuse.HAS_RESEND;
    this.reply(0, 64);
  }

  private lookup(): void {
    const { words } = this;
    const at = this.data / 4;
    const name = fuse.IN_HEADER_BYTES;
    const known = this.word(name) === fuse.FILE_NAME_WORD && (this.word(name + 4) & 0xff) === 0;
    if (!known) return this.reply(-ENOENT, 0);
    this.clear(128);
    words[at] = fuse.FILE_NODE;
    words[at + 4] = FOREVER;
    words[at + 6] = FOREVER;
    this.attributes(at + 10, fuse.FILE_NODE);
    this.reply(0, 128);
  }

  private getattr(): void {
    this.clear(104);
    this.words[this.data / 4] = FOREVER;
    this.attributes(this.data / 4 + 4, this.word(In.NODE));
    this.reply(0, 104);
  }

  /** struct fuse_attr at a word index. */
  private attributes(at: number, node: number): void {
    const { words } = this;
    const isDirectory = node === fuse.ROOT_NODE;
    const bytes = isDirectory ? PAGE : this.store.tables.slots * PAGE;
    words[at] = node;
    words[at + 2] = bytes >>> 0;
    words[at + 3] = Math.floor(bytes / 2 ** 32);
    words[at + 15] = isDirectory ? 0o40700 : 0o100600;
    words[at + 16] = 1;
    words[at + 20] = PAGE;
  }

  /** A word of the request, by its offset in it. */
  private word(offset: number): number {
    return this.words[(this.at + offset) / 4];
  }

  private number(offset: number): number {
    return this.word(offset) + this.word(offset + 4) * 2 ** 32;
  }

  private clear(bytes: number): void {
    this.words.fill(0, this.data / 4, (this.data + bytes) / 4);
  }

  private reply(error: number, bytes: number): void {
    const { words, out } = this;
    words[out / 4] = fuse.OUT_HEADER_BYTES + bytes;
    this.signed[out / 4 + 1] = error;
    words[out / 4 + 2] = this.word(In.UNIQUE);
    words[out / 4 + 3] = this.word(In.UNIQUE + 4);
    // ENOENT: the request was interrupted and nobody waits for the answer any more.
    write(this.fd, this.outAddress, fuse.OUT_HEADER_BYTES + bytes);
  }
}
