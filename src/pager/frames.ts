/** Framing of the pager's socket; see protocol.ts. */
export interface Frame {
  id: number;
  json: Record<string, unknown>;
  tail: Uint8Array;
}

const HEADER_BYTES = 12;
/** A claim of a million slots has 8 MiB; whoever sends more is not our controller. */
const MAX_FRAME_BYTES = 64 << 20;

export function encodeFrame(id: number, json: object, tail: Uint8Array = new Uint8Array(0)): Buffer[] {
  const text = Buffer.from(JSON.stringify(json), 'utf8');
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(text.length, 0);
  header.writeUInt32LE(tail.length, 4);
  header.writeUInt32LE(id, 8);
  return [header, text, Buffer.from(tail.buffer, tail.byteOffset, tail.byteLength)];
}

/** Puts frames together from what the socket delivers. */
export class FrameReader {
  private chunks: Buffer[] = [];
  private length = 0;

  /** The frames complete with this chunk. Throws when a frame is too large or no JSON. */
  push(chunk: Buffer): Frame[] {
    this.chunks.push(chunk);
    this.length += chunk.length;
    const frames: Frame[] = [];
    for (;;) {
      if (this.length < HEADER_BYTES) return frames;
      const head = this.chunks[0].length >= HEADER_BYTES ? this.chunks[0] : this.flatten();
      const textBytes = head.readUInt32LE(0);
      const tailBytes = head.readUInt32LE(4);
      const total = HEADER_BYTES + textBytes + tailBytes;
      if (total > MAX_FRAME_BYTES) throw new Error(`frame of ${total} bytes`);
      if (this.length < total) return frames;
      const all = this.flatten();
      const text = all.toString('utf8', HEADER_BYTES, HEADER_BYTES + textBytes);
      // Copied, so that typed arrays over the tail are aligned.
      const tail = Uint8Array.prototype.slice.call(all, HEADER_BYTES + textBytes, total);
      frames.push({ id: head.readUInt32LE(8), json: JSON.parse(text), tail });
      this.chunks = [all.subarray(total)];
      this.length -= total;
    }
  }

  private flatten(): Buffer {
    if (this.chunks.length > 1) this.chunks = [Buffer.concat(this.chunks)];
    return this.chunks[0];
  }
}
