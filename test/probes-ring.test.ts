import { describe, expect, it } from 'vitest';
import { RingReader } from '../src/telemetry/ring.js';

const BUSY = 0x80000000;
const DISCARDED = 0x40000000;
const BYTES = 4096;

/** Writes records the way the kernel does, into a buffer whose second half mirrors the first. */
class Writer {
  readonly memory = {
    consumer: new BigInt64Array(1),
    producer: new Uint32Array(2),
    words: new Uint32Array((2 * BYTES) / 4),
  };

  constructor(private position = 0) {
    this.memory.consumer[0] = BigInt(position);
    this.publish();
  }

  private publish(): void {
    this.memory.producer.set([this.position % 2 ** 32, Math.floor(this.position / 2 ** 32)]);
  }

  set(position: number, word: number): void {
    const at = (position % BYTES) / 4;
    this.memory.words[at] = word;
    this.memory.words[at + BYTES / 4] = word;
  }

  /** A record of `words` payload words, all `value`. Returns the position of its header. */
  put(value: number, words = 2, flags = 0): number {
    const at = this.position;
    for (let i = 0; i < words; i++) this.set((at + 8 + 4 * i) % BYTES, value);
    this.set(at, 4 * words + flags);
    this.position += (8 + 4 * words + 7) & ~7;
    this.publish();
    return at;
  }
}

function drained(reader: RingReader): number[][] {
  const records: number[][] = [];
  reader.drain((words, at, bytes) => records.push([...words.subarray(at, at + bytes / 4)]));
  return records;
}

describe('ring buffer', () => {
  it('gives records in order and frees them', () => {
    const writer = new Writer();
    const reader = new RingReader(writer.memory);
    writer.put(1);
    writer.put(2, 3);
    expect(reader.pendingBytes).toBe(40);
    expect(drained(reader)).toEqual([
      [1, 1],
      [2, 2, 2],
    ]);
    expect(writer.memory.consumer[0]).toBe(40n);
    expect(reader.pendingBytes).toBe(0);
    expect(drained(reader)).toEqual([]);
  });

  it('passes over discarded records', () => {
    const writer = new Writer();
    const reader = new RingReader(writer.memory);
    writer.put(1);
    writer.put(2, 2, DISCARDED);
    writer.put(3);
    expect(drained(reader)).toEqual([
      [1, 1],
      [3, 3],
    ]);
    expect(reader.pendingBytes).toBe(0);
  });

  it('stops at a record that is being written, and goes on when it is done', () => {
    const writer = new Writer();
    const reader = new RingReader(writer.memory);
    writer.put(1);
    const busy = writer.put(2, 2, BUSY);
    writer.put(3);
    expect(drained(reader)).toEqual([[1, 1]]);
    expect(drained(reader)).toEqual([]);
    writer.set(busy, 8);
    expect(drained(reader)).toEqual([
      [2, 2],
      [3, 3],
    ]);
  });

  it('reads on over the end, at any offset, also where the low words of positions overflow', () => {
    const nearOverflow = 2 ** 32 - 3 * BYTES + 8;
    const writer = new Writer(nearOverflow);
    const reader = new RingReader(writer.memory);
    let value = 0;
    for (let round = 0; round < 600; round++) {
      const expected: number[][] = [];
      for (let i = 0; i < 3; i++) {
        const words = 1 + ((round + i) % 9);
        writer.put(++value, words);
        expected.push(new Array<number>(words).fill(value));
      }
      expect(drained(reader)).toEqual(expected);
    }
    expect(writer.memory.consumer[0]).toBeGreaterThan(BigInt(2 ** 32 + BYTES));
    expect(reader.pendingBytes).toBe(0);
  });

  it('counts a record as read when the visitor throws', () => {
    const writer = new Writer();
    const reader = new RingReader(writer.memory);
    writer.put(1);
    writer.put(2);
    const fail = (): void => {
      throw new Error('visitor');
    };
    expect(() => reader.drain(fail)).toThrow('visitor');
    expect(writer.memory.consumer[0]).toBe(16n);
    expect(drained(reader)).toEqual([[2, 2]]);
  });
});
