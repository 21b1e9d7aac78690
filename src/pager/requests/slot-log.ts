import { close, ftruncate } from '../../native/files.js';
import { PAGE } from '../../native/libc.js';
import { MAP_SHARED, memfdCreate, mmap, munmap, PROT_READ, PROT_WRITE, view } from '../../native/memory.js';
import { pidfdGetfd, pidfdOpen } from '../../native/process.js';
import type { DemandReads } from '../protocol.js';

/**
 * Records kept, a power of two: at 30 000 reads a second, more than the device gives, half a second of them. A reader that
 * stays away for longer loses the oldest.
 */
const RECORDS = 1 << 14;
/** The first page has one word, how many records were written so far (it wraps); the records follow. */
const RECORDS_AT = PAGE;
export const SLOT_LOG_BYTES = RECORDS_AT + 4 * RECORDS;

/** A log's memory file, and where this process has it mapped. All of it is present: who writes must not wait for memory. */
export interface SlotLogMapping {
  fd: number;
  address: number;
}

export function createSlotLog(): SlotLogMapping {
  const fd = memfdCreate('agentzip-slots');
  ftruncate(fd, SLOT_LOG_BYTES);
  const address = mmap(SLOT_LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  new Uint8Array(view(address, SLOT_LOG_BYTES)).fill(0);
  return { fd, address };
}

/** Slots to which something was done (read though nobody had announced it, or written), in order: the pager's end. One thread writes. */
export class SlotLogWriter {
  private readonly count: Uint32Array;
  private readonly records: Uint32Array;

  constructor(address: number) {
    this.count = new Uint32Array(view(address, 4));
    this.records = new Uint32Array(view(address + RECORDS_AT, 4 * RECORDS));
  }

  note(slot: number): void {
    const count = this.count[0];
    this.records[count % RECORDS] = slot;
    Atomics.store(this.count, 0, count + 1);
  }
}

/** The reader's end. The writer does not wait for it, so a reader that is late loses what was written over. */
export class SlotLog implements DemandReads {
  lost = 0;
  private readonly count: Uint32Array;
  private readonly records: Uint32Array;
  private readonly copy = new Uint32Array(RECORDS);
  private next: number;
  private open = true;

  /** Begins with what is written from now on. The log must be mapped for as long as this is used. */
  constructor(private readonly address: number) {
    this.count = new Uint32Array(view(address, 4));
    this.records = new Uint32Array(view(address + RECORDS_AT, 4 * RECORDS));
    this.next = Atomics.load(this.count, 0);
  }

  /** The log behind another process's descriptor. */
  static of(pid: number, theirFd: number): SlotLog {
    const pidfd = pidfdOpen(pid);
    try {
      const fd = pidfdGetfd(pidfd, theirFd);
      try {
        return new SlotLog(mmap(SLOT_LOG_BYTES, PROT_READ, MAP_SHARED, fd));
      } finally {
        close(fd);
      }
    } finally {
      close(pidfd);
    }
  }

  drain(visit: (slot: number) => void): void {
    if (!this.open) return;
    const end = Atomics.load(this.count, 0);
    let from = this.next;
    // One less than there is room for: the next one may be half written.
    const most = RECORDS - 1;
    if ((end - from) >>> 0 > most) from = (end - most) >>> 0;
    const length = (end - from) >>> 0;
    for (let i = 0; i < length; i++) this.copy[i] = this.records[(from + i) % RECORDS];
    // What was written over meanwhile is not what it was.
    const behind = (Atomics.load(this.count, 0) - from) >>> 0;
    const first = Math.min(length, Math.max(0, behind - most));
    this.lost += ((from - this.next) >>> 0) + first;
    this.next = end;
    for (let i = first; i < length; i++) visit(this.copy[i]);
  }

  close(): void {
    if (this.open) munmap(this.address, SLOT_LOG_BYTES);
    this.open = false;
  }
}
