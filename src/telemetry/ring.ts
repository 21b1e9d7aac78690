import { PAGE } from '../native/libc.js';
import { MAP_SHARED, mmap, munmap, PROT_READ, PROT_WRITE, view } from '../native/memory.js';

/** Kernel ABI of a record's header (include/uapi/linux/bpf.h): u32 length with two flags, then u32 for the kernel's use. */
const HEADER_BYTES = 8;
const BUSY = 0x80000000;
const DISCARDED = 0x40000000;
const LENGTH_MASK = 0x3fffffff;

/** Called with the ring's words, the index of the record's first word, and its length in bytes. */
export type RecordVisitor = (words: Uint32Array, at: number, bytes: number) => void;

/** The memory of a ring as the kernel maps it. Positions count bytes since the ring was made and never wrap. */
export interface RingMemory {
  /** One word: where the reader is. Written here, read by the kernel. */
  consumer: BigInt64Array;
  /** Low word first: where the writer is. */
  producer: Uint32Array;
  /** The data twice in a row, so that a record that crosses the end is still contiguous. */
  words: Uint32Array;
}

/**
 * Reads a BPF ring buffer from mapped memory: no system call, no callback from native code, no allocation per record.
 * One reader per ring.
 */
export class RingReader {
  private readonly mask: number;
  private position: number;

  /** The ring's size in bytes is half that of `words`: a power of two, at most 2^30. */
  constructor(private readonly memory: RingMemory) {
    this.mask = memory.words.byteLength / 2 - 1;
    this.position = Number(memory.consumer[0]);
  }

  /** Bytes written and not yet read. The low words suffice, for the difference never exceeds the ring. */
  get pendingBytes(): number {
    return (Atomics.load(this.memory.producer, 0) - this.position) >>> 0;
  }

  /**
   * Visits what is there, at most one ring full, and frees it. Stops early at a record that another CPU is still writing.
   * When the visitor throws, its record counts as read and the error passes on.
   * @returns records visited
   */
  drain(visit: RecordVisitor): number {
    const { words } = this.memory;
    const end = this.position + this.pendingBytes;
    const start = this.position;
    let records = 0;
    try {
      while (this.position < end) {
        const word = (this.position & this.mask) >>> 2;
        const header = Atomics.load(words, word);
        if ((header & BUSY) !== 0) break;
        const bytes = header & LENGTH_MASK;
        this.position += (bytes + HEADER_BYTES + 7) & ~7;
        if ((header & DISCARDED) !== 0) continue;
        records++;
        visit(words, word + HEADER_BYTES / 4, bytes);
      }
    } finally {
      // One 64-bit store: the kernel must never see half a position.
      if (this.position !== start) Atomics.store(this.memory.consumer, 0, BigInt(this.position));
    }
    return records;
  }
}

/** A ring buffer map of the kernel, mapped. */
export class MappedRing {
  readonly reader: RingReader;
  private readonly ranges: [address: number, length: number][] = [];

  /** `bytes`: the map's max_entries. Throws a SystemError when the kernel refuses the mapping. */
  constructor(fd: number, bytes: number) {
    try {
      const consumer = this.map(fd, PAGE, PROT_READ | PROT_WRITE, 0);
      const producer = this.map(fd, PAGE + 2 * bytes, PROT_READ, PAGE);
      this.reader = new RingReader({
        consumer: new BigInt64Array(view(consumer, 8)),
        producer: new Uint32Array(view(producer, 8)),
        words: new Uint32Array(view(producer + PAGE, 2 * bytes)),
      });
    } catch (error) {
      this.unmap();
      throw error;
    }
  }

  private map(fd: number, length: number, protection: number, offset: number): number {
    const address = mmap(length, protection, MAP_SHARED, fd, offset);
    this.ranges.push([address, length]);
    return address;
  }

  /** The reader must not be used afterwards. Harmless when repeated. */
  unmap(): void {
    for (const [address, length] of this.ranges.splice(0)) munmap(address, length);
  }
}
