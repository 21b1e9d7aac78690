import { constants } from 'node:os';
import type { Workspace } from '../codec/kernels.js';
import { PAGE } from '../native/libc.js';
import { write } from '../native/files.js';
import type { Store } from '../store/store.js';
import * as fuse from './fuse-protocol.js';

const { EINVAL, EIO, ENOENT, ENOSPC, ENOSYS } = constants.errno;
const { In, Opcode } = fuse;

/** Workspace: a request as read from the kernel, and a reply whose data is page aligned. */
export const REQUEST_BYTES = fuse.MAX_IO + PAGE;
const OUT_DATA = 2 * fuse.MAX_IO;
const OUT = OUT_DATA - fuse.OUT_HEADER_BYTES;
export const FUSE_BYTES = OUT_DATA + fuse.MAX_IO;

/** Attributes never change: let the kernel keep them. Seconds. */
const FOREVER = 0x7fffffff;

/** A file system of one file, whose pages are the store's slots. Handles one request at a time, without allocating. */
export class FuseServer {
  private readonly words: Uint32Array;
  private readonly signed: Int32Array;
  private readonly half: Uint16Array;
  private readonly outAddress: number;

  constructor(
    private readonly store: Store,
    workspace: Workspace,
    private readonly fd: number,
  ) {
    this.words = workspace.words;
    this.signed = new Int32Array(workspace.words.buffer);
    this.half = new Uint16Array(workspace.words.buffer);
    this.outAddress = workspace.address + OUT;
  }

  /** Answers the request at offset 0 of the workspace. */
  handle(): void {
    const { words } = this;
    switch (words[In.OPCODE / 4]) {
      case Opcode.READ:
        return this.read(this.number(In.OFFSET), words[In.SIZE / 4]);
      case Opcode.WRITE:
        return this.write(this.number(In.OFFSET), words[In.SIZE / 4]);
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
        words[OUT_DATA / 4 + 2] = words[In.OPCODE / 4] === Opcode.OPEN ? fuse.FOPEN_DIRECT_IO : 0;
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
   * Asks the kernel for the requests that a server before this one has taken and not answered. Answering one again
   * that it had half done changes nothing. False where the kernel can not (before 6.9).
   */
  resend(): boolean {
    const { words } = this;
    words[OUT / 4] = fuse.OUT_HEADER_BYTES;
    words[OUT / 4 + 1] = fuse.NOTIFY_RESEND;
    words[OUT / 4 + 2] = words[OUT / 4 + 3] = 0; // no unique number: a notification
    return write(this.fd, this.outAddress, fuse.OUT_HEADER_BYTES) >= 0;
  }

  private read(offset: number, size: number): void {
    if (offset % PAGE !== 0 || size % PAGE !== 0 || size > fuse.MAX_IO) return this.reply(-EINVAL, 0);
    const slot = offset / PAGE;
    const count = Math.min(size / PAGE, Math.max(0, this.store.tables.slots - slot));
    for (let i = 0; i < count; i++) {
      if (!this.store.read(slot + i, OUT_DATA + i * PAGE)) return this.reply(-EIO, 0);
    }
    this.reply(0, count * PAGE);
  }

  private write(offset: number, size: number): void {
    const slot = offset / PAGE;
    const beyond = slot + size / PAGE > this.store.tables.slots;
    if (offset % PAGE !== 0 || size % PAGE !== 0 || size > fuse.MAX_IO || beyond)
      return this.reply(-EINVAL, 0);
    const count = size / PAGE;
    for (let i = 0; i < count; i++) {
      if (this.store.write(slot + i, In.WRITE_DATA + i * PAGE)) continue;
      // The kernel takes the whole request as failed.
      this.store.refuse(slot, count);
      return this.reply(-ENOSPC, 0);
    }
    this.words[OUT_DATA / 4] = size;
    this.words[OUT_DATA / 4 + 1] = 0;
    this.reply(0, 8);
  }

  private fallocate(): void {
    if ((this.words[In.FALLOCATE_MODE / 4] & fuse.PUNCH_HOLE) === 0) return this.reply(-ENOSYS, 0);
    const offset = this.number(In.OFFSET);
    const end = offset + this.number(In.FALLOCATE_LENGTH);
    const first = Math.ceil(offset / PAGE);
    this.store.discard(first, Math.max(0, Math.floor(end / PAGE) - first));
    this.reply(0, 0);
  }

  private init(): void {
    const { words, half } = this;
    const at = OUT_DATA / 4;
    this.clear(64);
    const want = fuse.ASYNC_READ | fuse.BIG_WRITES | fuse.ASYNC_DIO | fuse.MAX_PAGES | fuse.INIT_EXT;
    const offered2 = words[In.INIT_MINOR / 4] >= 36 ? words[In.INIT_FLAGS2 / 4] : 0;
    words[at] = 7;
    words[at + 1] = 40;
    words[at + 2] = fuse.MAX_IO;
    words[at + 3] = words[In.INIT_FLAGS / 4] & want;
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
    const name = fuse.IN_HEADER_BYTES / 4;
    if (words[name] !== fuse.FILE_NAME_WORD || (words[name + 1] & 0xff) !== 0) return this.reply(-ENOENT, 0);
    this.clear(128);
    words[OUT_DATA / 4] = fuse.FILE_NODE;
    words[OUT_DATA / 4 + 4] = FOREVER;
    words[OUT_DATA / 4 + 6] = FOREVER;
    this.attributes(OUT_DATA / 4 + 10, fuse.FILE_NODE);
    this.reply(0, 128);
  }

  private getattr(): void {
    this.clear(104);
    this.words[OUT_DATA / 4] = FOREVER;
    this.attributes(OUT_DATA / 4 + 4, this.words[In.NODE / 4]);
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

  private number(at: number): number {
    return this.words[at / 4] + this.words[at / 4 + 1] * 2 ** 32;
  }

  private clear(bytes: number): void {
    this.words.fill(0, OUT_DATA / 4, (OUT_DATA + bytes) / 4);
  }

  private reply(error: number, bytes: number): void {
    const { words } = this;
    words[OUT / 4] = fuse.OUT_HEADER_BYTES + bytes;
    this.signed[OUT / 4 + 1] = error;
    words[OUT / 4 + 2] = words[In.UNIQUE / 4];
    words[OUT / 4 + 3] = words[In.UNIQUE / 4 + 1];
    // ENOENT: the request was interrupted and nobody waits for the answer any more.
    write(this.fd, this.outAddress, fuse.OUT_HEADER_BYTES + bytes);
  }
}
