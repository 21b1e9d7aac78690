import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { AgentZipError } from '../../errors.js';
import { PAGE } from '../../native/libc.js';
import { CRC_AT, type DumpHeader, RECORD, RECORD_HEADER, recordCrc } from './dump.js';

const BATCH = 256;
const ZEROS = Buffer.alloc(PAGE);
/** Counts of a header are as long as this at most. */
const LONGEST = Number.MAX_SAFE_INTEGER;

/** Bytes that all files of one capture may take together. */
export class SizeLimit {
  private left: number;

  constructor(
    private readonly bytes: number,
    private readonly folder: string,
  ) {
    this.left = bytes;
  }

  /** AZ_USAGE when the bytes are more than is left. */
  take(bytes: number): void {
    this.left -= bytes;
    if (this.left >= 0) return;
    throw new AgentZipError('AZ_USAGE', {
      what: `the files in ${this.folder} would take more than ${this.bytes / 2 ** 20} MiB: raise --capture-limit, or capture fewer sandboxes`,
      command: 'bench',
    });
  }
}

/** Writes one dump, mode 0600: the file appears whole with `finish`, or not at all with `abandon`. */
export class DumpWriter {
  private readonly temporary: string;
  private readonly fd: number;
  private readonly buffer = Buffer.alloc(BATCH * RECORD);
  private readonly headerBytes: number;
  private waiting = 0;
  private pages = 0;
  private zeroPages = 0;

  /** The header's own counts of pages are not looked at. */
  constructor(
    private readonly path: string,
    private readonly header: DumpHeader,
    private readonly limit: SizeLimit,
  ) {
    this.temporary = `${path}.${process.pid}.tmp`;
    this.headerBytes = Buffer.byteLength(this.headerLine(LONGEST, LONGEST));
    limit.take(this.headerBytes);
    this.fd = openSync(this.temporary, 'wx', 0o600);
    writeSync(this.fd, Buffer.alloc(this.headerBytes, ' '));
  }

  /** Takes a copy of the page. A page of zeros is only counted. */
  add(mapping: number, page: number, templatePage: number, bytes: Uint8Array): void {
    if (ZEROS.equals(bytes)) {
      this.zeroPages++;
      return;
    }
    this.limit.take(RECORD);
    const { buffer } = this;
    const at = this.waiting * RECORD;
    buffer.writeUInt32LE(mapping, at);
    buffer.writeUInt32LE(page, at + 4);
    buffer.writeUInt32LE(templatePage, at + 8);
    buffer.set(bytes, at + RECORD_HEADER);
    buffer.writeUInt32LE(recordCrc(buffer, at), at + CRC_AT);
    this.pages++;
    if (++this.waiting === BATCH) this.flush();
  }

  finish(): void {
    this.flush();
    const line = this.headerLine(this.pages, this.zeroPages);
    const padded = `${line.slice(0, -1).padEnd(this.headerBytes - Buffer.byteLength(line) + line.length - 1)}\n`;
    writeSync(this.fd, padded, 0);
    closeSync(this.fd);
    renameSync(this.temporary, this.path);
  }

  abandon(): void {
    closeSync(this.fd);
    rmSync(this.temporary, { force: true });
  }

  private headerLine(pages: number, zeroPages: number): string {
    return `${JSON.stringify({ ...this.header, pages, zeroPages })}\n`;
  }

  private flush(): void {
    writeSync(this.fd, this.buffer, 0, this.waiting * RECORD);
    this.waiting = 0;
  }
}
