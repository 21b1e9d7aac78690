/**
 * As much of the wire format of Protocol Buffers as a few messages need (https://protobuf.dev/programming-guides/encoding):
 * numbers, texts and messages by the number of their field. Throws RangeError at bytes that are none.
 */

const VARINT = 0;
const FIXED_64 = 1;
const LENGTH = 2;
const FIXED_32 = 5;

export type Value = number | string | Uint8Array;

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80);
  return [...bytes, value];
}

/** A message of fields, in this order. */
export function encode(...fields: readonly (readonly [number: number, value: Value])[]): Uint8Array {
  const parts = fields.map(([number, value]): Uint8Array => {
    if (typeof value === 'number') return Uint8Array.from([...varint(number * 8 + VARINT), ...varint(value)]);
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
    return Buffer.concat([Uint8Array.from([...varint(number * 8 + LENGTH), ...varint(bytes.length)]), bytes]);
  });
  return Buffer.concat(parts);
}

class Reader {
  at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get ended(): boolean {
    return this.at >= this.bytes.length;
  }

  varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 0x80) {
      if (this.ended) throw new RangeError('a number has no end');
      const byte = this.bytes[this.at++];
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  take(length: number): Uint8Array {
    if (length > this.bytes.length - this.at) throw new RangeError('a field goes beyond the message');
    return this.bytes.subarray(this.at, (this.at += length));
  }
}

/** The fields of a message that was received. Those that are not there are what Protocol Buffers say: 0, empty. */
export class Message {
  private readonly fields = new Map<number, (number | Uint8Array)[]>();

  constructor(bytes: Uint8Array) {
    const reader = new Reader(bytes);
    while (!reader.ended) {
      const tag = reader.varint();
      const number = Math.floor(tag / 8);
      const values = this.fields.get(number) ?? [];
      values.push(valueOf(reader, tag % 8));
      this.fields.set(number, values);
    }
  }

  number(field: number): number {
    const value = this.fields.get(field)?.at(-1);
    return typeof value === 'number' ? value : 0;
  }

  text(field: number): string {
    return decode(this.bytes(field));
  }

  bytes(field: number): Uint8Array {
    const value = this.fields.get(field)?.at(-1);
    return value instanceof Uint8Array ? value : new Uint8Array();
  }

  message(field: number): Message {
    return new Message(this.bytes(field));
  }

  messages(field: number): Message[] {
    const values = this.fields.get(field) ?? [];
    return values.filter((value) => value instanceof Uint8Array).map((value) => new Message(value));
  }

  /** A `map<string, string>`. */
  texts(field: number): Record<string, string> {
    return Object.fromEntries(this.messages(field).map((entry) => [entry.text(1), entry.text(2)]));
  }
}

const decode = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');

function valueOf(reader: Reader, type: number): number | Uint8Array {
  if (type === VARINT) return reader.varint();
  if (type === LENGTH) return reader.take(reader.varint());
  if (type === FIXED_64) return reader.take(8);
  if (type === FIXED_32) return reader.take(4);
  throw new RangeError(`a field has the type ${type}`);
}
