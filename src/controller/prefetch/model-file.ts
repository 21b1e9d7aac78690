import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AgentZipError } from '../../errors.js';
import { AtomicFile } from '../../native/atomic-file.js';
import { PrefetchModel } from './prefetch-model.js';
import { UseTable } from './use-table.js';

/** Changes with the format, and with what contexts, weights or histories mean. */
const VERSION = 1;
const MAGIC = 'AZPM';
/** Magic, version and length of the key; then the key, the model's columns and a SHA-256 of all that. */
const HEAD_BYTES = 12;
const DIGEST_BYTES = 32;
const SUFFIX = '.model';
/** The files that were written last are kept: 1.5 MiB each. */
const MOST_FILES = 64;

const digest = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();

/** The bytes behind each column of a model, in the order of the file. */
function columnsOf({ table, weights }: PrefetchModel): Uint8Array[] {
  return [weights, ...Object.values(table.columns)].map(
    ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
  );
}

/** Prefetch models on disk, a file each, for root alone. A key names the trust domain and the template, and is checked. */
export class ModelFiles {
  constructor(private readonly folder: string) {}

  /** Null when there is none. AZ_MODEL_INVALID for one that is damaged, of another version or of another key. */
  load(key: string): PrefetchModel | null {
    const path = this.pathOf(key);
    let bytes: Buffer;
    try {
      bytes = readFileSync(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw invalid(path, (error as Error).message);
    }
    const model = new PrefetchModel(new UseTable());
    const columns = columnsOf(model);
    const head = Buffer.concat([headOf(key), Buffer.from(key)]);
    const size = columns.reduce((sum, { length }) => sum + length, head.length + DIGEST_BYTES);
    if (!bytes.subarray(0, 4).equals(Buffer.from(MAGIC))) throw invalid(path, 'it is no model');
    if (bytes.length < HEAD_BYTES || bytes.readUInt32LE(4) !== VERSION) {
      throw invalid(path, 'another version wrote it');
    }
    const body = bytes.subarray(0, -DIGEST_BYTES);
    if (bytes.length !== size || !digest(body).equals(bytes.subarray(-DIGEST_BYTES))) {
      throw invalid(path, 'it is damaged');
    }
    if (!body.subarray(0, head.length).equals(head)) throw invalid(path, 'it is of other sandboxes');
    let at = head.length;
    for (const column of columns) {
      column.set(body.subarray(at, at + column.length));
      at += column.length;
    }
    return model;
  }

  /** Atomic: the file is the old one or the new one. AZ_MODEL_WRITE when the disk does not take it. */
  save(key: string, model: PrefetchModel): void {
    const path = this.pathOf(key);
    try {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      const body = Buffer.concat([headOf(key), Buffer.from(key), ...columnsOf(model)]);
      AtomicFile.write(path, body, digest(body));
      this.dropOldest();
    } catch (error) {
      throw new AgentZipError('AZ_MODEL_WRITE', { path, reason: (error as Error).message }, { cause: error });
    }
  }

  private pathOf(key: string): string {
    return join(this.folder, `${digest(Buffer.from(key)).toString('hex').slice(0, 32)}${SUFFIX}`);
  }

  private dropOldest(): void {
    const files = readdirSync(this.folder)
      .filter((name) => name.endsWith(SUFFIX))
      .map((name) => ({ name, at: statSync(join(this.folder, name)).mtimeMs }))
      .sort((a, b) => b.at - a.at);
    for (const { name } of files.slice(MOST_FILES)) rmSync(join(this.folder, name), { force: true });
  }
}

function headOf(key: string): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(MAGIC);
  head.writeUInt32LE(VERSION, 4);
  head.writeUInt32LE(Buffer.byteLength(key), 8);
  return head;
}

const invalid = (path: string, reason: string): AgentZipError =>
  new AgentZipError('AZ_MODEL_INVALID', { path, reason });
