import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { PAGE } from '../../native/libc.js';
import {
  CRC_AT,
  DUMP_SUFFIX,
  type DumpHeader,
  invalid,
  MAX_HEADER,
  parseHeader,
  RECORD,
  RECORD_HEADER,
  recordCrc,
} from './dump.js';

const BATCH = 256;
const HEADER_CHUNK = 65_536;

/** One page of a dump; `bytes` are valid until the next one is asked for. */
export interface DumpPage {
  mapping: number;
  templatePage: number;
  bytes: Uint8Array;
  /** Where in the file its record begins. */
  offset: number;
}

/** A dump on disk, checked as it is read. */
export class DumpReader {
  readonly header: DumpHeader;
  private readonly fd: number;
  private readonly headerBytes: number;

  /** AZ_DUMP_INVALID when the header is damaged, or when the file is not as long as it says. */
  constructor(readonly path: string) {
    this.fd = open(path);
    try {
      const line = this.readHeaderLine();
      this.headerBytes = line.length + 1;
      this.header = parseHeader(path, line.toString('utf8'));
      this.checkLength();
    } catch (error) {
      closeSync(this.fd);
      throw error;
    }
  }

  /** Every record in order. AZ_DUMP_INVALID at the first that is damaged. */
  *pages(): Generator<DumpPage> {
    const buffer = Buffer.alloc(BATCH * RECORD);
    const { pages, mappings } = this.header;
    for (let first = 0; first < pages; first += BATCH) {
      const count = Math.min(BATCH, pages - first);
      const start = this.headerBytes + first * RECORD;
      const got = readSync(this.fd, buffer, 0, count * RECORD, start);
      for (let i = 0; i < count; i++) {
        const at = i * RECORD;
        const offset = start + at;
        if (at + RECORD > got) throw invalid(this.path, start + got, 'it ends in the middle of a record');
        if (buffer.readUInt32LE(at + CRC_AT) !== recordCrc(buffer, at)) {
          throw invalid(this.path, offset, 'a record does not fit its checksum');
        }
        const mapping = buffer.readUInt32LE(at);
        if (mapping >= mappings.length) {
          throw invalid(this.path, offset, `a record names mapping ${mapping} of ${mappings.length}`);
        }
        const bytes = buffer.subarray(at + RECORD_HEADER, at + RECORD);
        yield { mapping, templatePage: buffer.readUInt32LE(at + 8), bytes, offset };
      }
    }
  }

  /** Bytes of memory the dump stands for. */
  get bytes(): number {
    return (this.header.pages + this.header.zeroPages) * PAGE;
  }

  close(): void {
    closeSync(this.fd);
  }

  private readHeaderLine(): Buffer {
    let read = Buffer.alloc(0);
    for (;;) {
      const chunk = Buffer.alloc(HEADER_CHUNK);
      const got = readSync(this.fd, chunk, 0, HEADER_CHUNK, read.length);
      const end = chunk.subarray(0, got).indexOf(10);
      read = Buffer.concat([read, chunk.subarray(0, end < 0 ? got : end)]);
      if (end >= 0) return read;
      if (got === 0) throw invalid(this.path, read.length, 'it ends before its header does');
      if (read.length > MAX_HEADER) throw invalid(this.path, read.length, 'its header has no end');
    }
  }

  private checkLength(): void {
    const { size } = fstatSync(this.fd);
    const { pages } = this.header;
    const wanted = this.headerBytes + pages * RECORD;
    if (size === wanted) return;
    const whole = Math.max(0, Math.floor((size - this.headerBytes) / RECORD));
    const reason =
      size < wanted
        ? `it is cut off after ${whole} of ${pages} records`
        : `${size - wanted} bytes follow its last record`;
    throw invalid(this.path, Math.min(size, wanted), reason);
  }
}

function open(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw invalid(path, 0, (error as Error).message);
  }
}

/** Paths of the dumps in a folder, sandbox-2 before sandbox-10. AZ_DUMP_INVALID when there is none. */
export function dumpsIn(folder: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    throw invalid(folder, 0, (error as Error).message);
  }
  const dumps = names.filter((name) => name.endsWith(DUMP_SUFFIX));
  if (dumps.length === 0) throw invalid(folder, 0, `it holds no file that ends in ${DUMP_SUFFIX}`);
  dumps.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return dumps.map((name) => `${folder}/${name}`);
}
