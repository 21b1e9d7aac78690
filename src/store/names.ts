const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Small numbers for names, kept in the store so that they outlive the process. Record: u16 length, then UTF-8.
 * Number 0 is never given out; its record holds the highest number ever used, so that a look at a small table does
 * not touch (and so allocate) the memory of a large one.
 */
export class NameTable {
  private readonly ids = new Map<string, number>();
  private readonly recordBytes: number;
  /** The same bytes as little-endian words: a length is stored whole or not at all, whenever the process is killed. */
  private readonly words: Uint16Array;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly records: number,
  ) {
    this.recordBytes = Math.floor(bytes.length / records);
    this.words = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
    for (let id = 1; id <= this.words[0]; id++) {
      const name = this.read(id);
      if (name !== '') this.ids.set(name, id);
    }
  }

  get size(): number {
    return this.ids.size;
  }

  find(name: string): number {
    return this.ids.get(name) ?? 0;
  }

  name(id: number): string {
    return this.read(id);
  }

  entries(): IterableIterator<[string, number]> {
    return this.ids.entries();
  }

  /** The name's number, a new one if need be; 0 when the table is full or the name too long. */
  add(name: string): number {
    const known = this.ids.get(name);
    if (known !== undefined) return known;
    const utf8 = encoder.encode(name);
    if (utf8.length === 0 || utf8.length > this.recordBytes - 2) return 0;
    for (let id = 1; id < this.records; id++) {
      const at = id * this.recordBytes;
      if (this.words[at / 2] !== 0) continue;
      this.bytes.set(utf8, at + 2);
      if (id > this.words[0]) this.words[0] = id;
      // The length last: a record without one is free, also after a crash in between.
      this.words[at / 2] = utf8.length;
      this.ids.set(name, id);
      return id;
    }
    return 0;
  }

  remove(id: number): void {
    this.ids.delete(this.read(id));
    this.words[(id * this.recordBytes) / 2] = 0;
    this.bytes.fill(0, id * this.recordBytes, (id + 1) * this.recordBytes);
  }

  private read(id: number): string {
    const at = id * this.recordBytes;
    const length = this.words[at / 2];
    return decoder.decode(this.bytes.slice(at + 2, at + 2 + length));
  }
}
