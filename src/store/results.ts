import { MAX_BLOCK } from './size-classes.js';
import { MAX_CLUSTER } from './layout.js';
import { MAX_CLUSTER_BASES } from './references.js';

/** Words of a result, ahead of its payload. */
export const Result = {
  SLOT: 0,
  /** The slot's write sequence when the worker read its page. */
  SEQUENCE: 1,
  OWNER: 2,
  /** A Kind, or DUPLICATE; with MISFIT if need be. */
  KIND: 3,
  LENGTH: 4,
  /** Object, template reference or dictionary; for DUPLICATE the object that already holds the page. */
  BASE: 5,
  /** Hash of the bytes the worker had for that object: an object reused since then has another. Of a dictionary its version. */
  BASE_HASH_LOW: 6,
  BASE_HASH_HIGH: 7,
  /** Sketch of the page, four words. */
  SKETCH: 8,
  /** The second base of a pair, and its hash. */
  SECOND: 12,
  SECOND_HASH_LOW: 13,
  SECOND_HASH_HIGH: 14,
} as const;
/**
 * A cluster's result has KIND, LENGTH, BASE, BASE_HASH_LOW and OWNER, in MEMBERS how many pages it is of, and in its payload,
 * ahead of its block, of each: slot, sequence and object when its page was read, then its sketch; and of each object that it
 * rests on the hash.
 */
export const MEMBERS = Result.SLOT;
export const MEMBER_WORDS = 7;
export const Member = { SLOT: 0, SEQUENCE: 1, OBJECT: 2, SKETCH: 3 } as const;
export const DUPLICATE = 100;
/** Bit of a result's kind: it has no base although the template has one at the page's address. */
export const MISFIT = 256;

/** Of a cluster: a table of its members, one of its bases, and the block. */
const MEMBERS_BYTES = MAX_CLUSTER * MEMBER_WORDS * 4;
const BASE_HASHES_BYTES = MAX_CLUSTER_BASES * 8;
const BLOCK_AT = MEMBERS_BYTES + BASE_HASHES_BYTES;
const PAYLOAD_BYTES = BLOCK_AT + MAX_BLOCK;
const HEADER_BYTES = 64;
const HEADER_WORDS = HEADER_BYTES / 4;
const ENTRY_BYTES = HEADER_BYTES + PAYLOAD_BYTES;
const ENTRIES = 32;
const RING_HEADER_BYTES = 64;
/** How long a producer sleeps when the ring is full, ms. */
const PAUSE_MS = 1;
const HEAD = 0;
const TAIL = 1;

export const RESULT_RING_BYTES = RING_HEADER_BYTES + ENTRIES * ENTRY_BYTES;

/**
 * Results of one refine worker on their way to the data loop: one producer, one consumer, no locks. Counters run
 * modulo 2^32; ENTRIES divides it.
 */
export class ResultRing {
  private readonly control: Int32Array;
  /** To sleep on: Atomics.wait takes no view of native memory. */
  private readonly pause = new Int32Array(new SharedArrayBuffer(4));
  readonly words: Uint32Array;

  /** `address`: native address of the RESULT_RING_BYTES in `buffer`. */
  constructor(
    buffer: ArrayBuffer,
    private readonly address: number,
  ) {
    this.control = new Int32Array(buffer, 0, 2);
    this.words = new Uint32Array(buffer);
  }

  /** Index in `words` of the next free entry, waiting for the consumer if need be. */
  reserve(): number {
    for (;;) {
      const tail = Atomics.load(this.control, TAIL);
      if (((this.control[HEAD] - tail) | 0) < ENTRIES) break;
      Atomics.wait(this.pause, 0, 0, PAUSE_MS);
    }
    return entryWords(this.control[HEAD]);
  }

  /** A free entry, begun for the page that was read. */
  begin(slot: number, sequence: number, owner: number): number {
    const entry = this.reserve();
    const { words } = this;
    words[entry + Result.SLOT] = slot;
    words[entry + Result.SEQUENCE] = sequence;
    words[entry + Result.OWNER] = owner;
    return entry;
  }

  publish(): void {
    Atomics.store(this.control, HEAD, (this.control[HEAD] + 1) | 0);
  }

  /** Index in `words` of the oldest entry, or -1. */
  peek(): number {
    const tail = this.control[TAIL];
    return Atomics.load(this.control, HEAD) === tail ? -1 : entryWords(tail);
  }

  consume(): void {
    Atomics.store(this.control, TAIL, (this.control[TAIL] + 1) | 0);
  }

  /** Native address of a cluster's block, behind the tables. */
  block(entry: number): number {
    return this.payload(entry) + BLOCK_AT;
  }

  /** Native address of an entry's payload, PAYLOAD_BYTES. */
  payload(entry: number): number {
    return this.address + entry * 4 + HEADER_BYTES;
  }
}

/** Index in `words` of what an entry's payload says of a cluster's member. */
export const memberWords = (entry: number, member: number): number =>
  entry + HEADER_WORDS + member * MEMBER_WORDS;

/** Index in `words` of the hash of an object that a cluster rests on. */
export const baseHashWords = (entry: number, base: number): number =>
  entry + HEADER_WORDS + MEMBERS_BYTES / 4 + 2 * base;

/** Index in `words` of a cluster's block, which begins with the names of its bases. */
export const blockWords = (entry: number): number => entry + HEADER_WORDS + BLOCK_AT / 4;

const entryWords = (counter: number): number =>
  (RING_HEADER_BYTES + ((counter >>> 0) % ENTRIES) * ENTRY_BYTES) / 4;
